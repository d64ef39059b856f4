# mechanism: one fault a function, the rest of its loop right
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader


def amp_update_each(net, data, opt, steps):
    scaler = torch.amp.GradScaler()
    loader = DataLoader(data, batch_size=4, drop_last=True)
    for i, (x, y) in enumerate(loader):
        scaler.scale(F.mse_loss(net(x), y) / steps).backward()
        if (i + 1) % steps == 0:  # expect: ACC304
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(opt)
            opt.zero_grad()
        scaler.update()  # expect: ACC307


def clip_scaled(net, data, opt, steps):
    scaler = torch.amp.GradScaler()
    loader = DataLoader(data, batch_size=4, drop_last=True)
    for i, (x, y) in enumerate(loader):
        scaler.scale(F.mse_loss(net(x), y) / steps).backward()
        if (i + 1) % steps == 0:  # expect: ACC304
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # expect: ACC202
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()


def schedule_each(net, data, opt, sched, steps):
    loader = DataLoader(data, batch_size=4, drop_last=True)
    for i, (x, y) in enumerate(loader):
        (F.mse_loss(net(x), y) / steps).backward()
        sched.step()  # expect: ACC306
        if (i + 1) % steps == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()


def zero_in_window(net, data, opt, steps):
    loader = DataLoader(data, batch_size=4, drop_last=True)
    for i, (x, y) in enumerate(loader):
        opt.zero_grad()  # expect: ACC302
        (F.mse_loss(net(x), y) / steps).backward()
        if (i + 1) % steps == 0:  # expect: ACC304
            opt.step()


def never_cleared(net, data, opt, steps):
    loader = DataLoader(data, batch_size=4, drop_last=True)
    for i, (x, y) in enumerate(loader):
        (F.mse_loss(net(x), y) / steps).backward()
        if (i + 1) % steps == 0:  # expect: ACC304
            opt.step()  # expect: ACC303


def twice(net, data, opt, steps):
    loader = DataLoader(data, batch_size=4, drop_last=True)
    for i, (x, y) in enumerate(loader):
        loss = F.mse_loss(net(x), y) / steps
        (loss / steps).backward()  # expect: ACC104
        if (i + 1) % steps == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()


def step_each(net, data, opt, steps):
    loader = DataLoader(data, batch_size=4, drop_last=True)
    for i, (x, y) in enumerate(loader):
        loss = F.mse_loss(net(x), y) / steps
        loss.backward()
        opt.step()  # expect: ACC301
        if (i + 1) % steps == 0:
            opt.zero_grad()


def kl_tokens(net, teacher, data, opt, steps):
    loader = DataLoader(data, batch_size=4, drop_last=True)
    for i, (x, mask) in enumerate(loader):
        s = F.log_softmax(net(x)[mask], -1)
        t = F.softmax(teacher(x)[mask].detach(), -1)
        (F.kl_div(s, t, reduction="batchmean") / steps).backward()  # expect: ACC101
        if (i + 1) % steps == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()


def sum_over_steps(net, data, opt, steps):
    loader = DataLoader(data, batch_size=4, drop_last=True)
    for i, (x, y) in enumerate(loader):
        per = F.cross_entropy(net(x).transpose(1, 2), y, reduction="none", ignore_index=0)
        loss = per.sum() / (y != 0).sum()
        (loss / steps).backward()  # expect: ACC101
        if (i + 1) % steps == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()


def epoch_carried(net, data, opt, steps, epochs):
    loader = DataLoader(data, batch_size=4, drop_last=True)
    count = 0
    for _ in range(epochs):
        for x, y in loader:
            (F.mse_loss(net(x), y) / steps).backward()
            count += 1
            if count % steps == 0:
                opt.step()
                opt.zero_grad()


def flag_first(net, batches, opt, steps):
    step = 0
    while step < 10000:
        x, y = next(batches)
        do = step % steps == 0
        F.mse_loss(net(x), y, reduction="sum").backward()
        if do:  # expect: ACC305
            opt.step()
            opt.zero_grad()
        step += 1
