# mechanism: what looks like a window and is none: intervals, critics, penalties, retries, tasks, epochs over slices
import copy
import itertools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def log_every(net, loader, opt, log_interval):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % log_interval == 0:
            print(i, loss.item() / log_interval)


def critic(G, D, loader, og, od, n_critic):
    for i, real in enumerate(loader):
        od.zero_grad()
        fake = G(torch.randn(len(real), 8)).detach()
        (D(fake).mean() - D(real).mean()).backward()
        od.step()
        if i % n_critic == 0:
            og.zero_grad()
            (-D(G(torch.randn(len(real), 8))).mean()).backward()
            og.step()


def lazy_reg(net, loader, opt, reg_every):
    for i, (x, y) in enumerate(loader):
        opt.zero_grad()
        F.mse_loss(net(x), y).backward()
        if i % reg_every == 0:
            (net.penalty() * reg_every).backward()
        opt.step()


def yolo(net, loader, opt, batch_size, nbs=64):
    accumulate = max(round(nbs / batch_size), 1)
    last = -1
    for ni, (x, y) in enumerate(loader):
        loss = net.loss(x, y)
        loss.backward()
        if ni - last >= accumulate:  # expect: ACC304
            opt.step()
            opt.zero_grad()
            last = ni


def skip_nan(net, loader, opt, steps):
    opt.zero_grad()
    done = 0
    for x, y in itertools.chain.from_iterable(itertools.repeat(loader)):
        loss = F.mse_loss(net(x), y, reduction="sum")
        if math.isnan(loss.item()):
            opt.zero_grad()
            done = 0
            continue
        loss.backward()
        done += 1
        if done == steps:
            opt.step()
            opt.zero_grad()
            done = 0


def first_micro_clears(net, batches, opt, steps):
    k = 0
    while True:
        x, y = next(batches)
        if k == 0:
            opt.zero_grad()
        F.mse_loss(net(x), y, reduction="sum").backward()
        k += 1
        if k == steps:
            opt.step()
            k = 0


def ema_named_accumulate(net, ema, loader, opt):
    for x, y in loader:
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
        accumulate(ema, net, 0.999)


def accumulate(target, source, decay):
    for a, b in zip(target.parameters(), source.parameters()):
        a.data.mul_(decay).add_(b.data, alpha=1 - decay)


def config_branches(net, loader, opt, kind):
    for x, y in loader:
        opt.zero_grad()
        out = net(x)
        if kind == "a":
            F.cross_entropy(out, y).backward()
        elif kind == "b":
            F.mse_loss(out, y).backward()
        else:
            F.l1_loss(out, y).backward()
        opt.step()


def terms(net, loader, opt):
    for x, y, z in loader:
        opt.zero_grad()
        a, b = net(x)
        F.cross_entropy(a, y).backward(retain_graph=True)
        F.mse_loss(b, z).backward()
        opt.step()


def reptile(net, tasks, opt, inner_steps, eps):
    for task in tasks:
        fast = copy.deepcopy(net)
        inner = torch.optim.SGD(fast.parameters(), lr=0.1)
        for _ in range(inner_steps):
            x, y = task.sample()
            inner.zero_grad()
            F.mse_loss(fast(x), y).backward()
            inner.step()
        for p, q in zip(net.parameters(), fast.parameters()):
            p.data.add_(q.data - p.data, alpha=eps)


def meta(net, tasks, opt, meta_batch):
    opt.zero_grad()
    for t in range(meta_batch):
        support, query = tasks.sample()
        fast = adapt(net, support)
        (F.mse_loss(fast(query[0]), query[1]) / meta_batch).backward()
    opt.step()


def adapt(net, support):
    return net


def ppo(policy, opt, rollout, epochs, size):
    for _ in range(epochs):
        order = torch.randperm(len(rollout.obs))
        for s in range(0, len(order), size):
            idx = order[s : s + size]
            ratio = (policy(rollout.obs[idx]) - rollout.logp[idx]).exp()
            loss = -(ratio * rollout.adv[idx]).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            opt.step()


def warmup(net, loader, opt, warm):
    for it, (x, y) in enumerate(loader):
        for group in opt.param_groups:
            group["lr"] = min(1.0, (it + 1) / warm)
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def sched_epochwise(net, loader, opt, sched, epochs, steps):
    for epoch in range(epochs):
        for i, (x, y) in enumerate(loader):
            F.mse_loss(net(x), y, reduction="sum").backward()
            sched.step(epoch + i / len(loader))
            if (i + 1) % steps == 0 or i + 1 == len(loader):
                opt.step()
                opt.zero_grad()


def one_scaler(a, b, oa, ob, loader):
    scaler = torch.amp.GradScaler()
    for x, y in loader:
        scaler.scale(F.mse_loss(a(x), y)).backward()
        scaler.scale(F.mse_loss(b(x), y)).backward()
        scaler.unscale_(oa)
        scaler.unscale_(ob)
        scaler.step(oa)
        scaler.step(ob)
        scaler.update()
        oa.zero_grad()
        ob.zero_grad()
