# mechanism: generators, islice, StopIteration, zip and cycle bring the microbatches of a window
import torch
import torch.nn.functional as F
from itertools import cycle, islice


def groups(loader, n):
    out = []
    for b in loader:
        out.append(b)
        if len(out) == n:
            yield out
            out = []
    if out:
        yield out


def wrong(net, loader, opt, n):
    for group in groups(loader, n):
        for x, y in group:
            (F.mse_loss(net(x), y) / n).backward()  # expect: ACC102, ACC107
        opt.step()
        opt.zero_grad()


def right(net, loader, opt, n):
    for group in groups(loader, n):
        rows = sum(y.numel() for _, y in group)
        for x, y in group:
            (F.mse_loss(net(x), y, reduction="sum") / rows).backward()
        opt.step()
        opt.zero_grad()


def slices_islice(net, loader, opt, n):
    it = iter(loader)
    while True:
        window = list(islice(it, n))
        if not window:
            break
        for x, y in window:
            (F.cross_entropy(net(x), y, ignore_index=0) / len(window)).backward()  # expect: ACC101
        opt.step()
        opt.zero_grad()


def stop_iteration(net, loader, opt, n):
    it = iter(loader)
    done = False
    while not done:
        count = 0
        for _ in range(n):
            try:
                x, y = next(it)
            except StopIteration:
                done = True
                break
            (F.mse_loss(net(x), y) / n).backward()  # expect: ACC102, ACC107
            count += 1
        if count:
            opt.step()
            opt.zero_grad()


def zipped(net, labelled, unlabelled, opt, n):
    for i, ((x, y), u) in enumerate(zip(labelled, cycle(unlabelled))):
        loss = F.mse_loss(net(x), y) + F.mse_loss(net(u), u)
        (loss / n).backward()  # expect: ACC102
        if (i + 1) % n == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()


def zip_cycle(net, loader, opt, n):
    for (x, y), k in zip(loader, cycle(range(n))):
        (F.mse_loss(net(x), y) / n).backward()  # expect: ACC102
        if k == n - 1:  # expect: ACC304
            opt.step()
            opt.zero_grad()


def two_optimizers(net, head, loader, opt, opt2, n):
    for i, (x, y) in enumerate(loader):
        (F.cross_entropy(head(net(x)), y, ignore_index=0) / n).backward()  # expect: ACC101
        if (i + 1) % n == 0:  # expect: ACC304
            opt.step()
            opt2.step()
            opt.zero_grad()
            opt2.zero_grad()


def two_scalers(a, b, loader, oa, ob, n):
    sa, sb = torch.amp.GradScaler(), torch.amp.GradScaler()
    for i, (x, y) in enumerate(loader):
        sa.scale(F.mse_loss(a(x), y, reduction="sum")).backward()
        sb.scale(F.mse_loss(b(x), y, reduction="sum")).backward()
        sb.update()  # expect: ACC307
        if (i + 1) % n == 0 or i + 1 == len(loader):
            sa.step(oa)
            sa.update()
            sb.step(ob)
            oa.zero_grad()
            ob.zero_grad()


def nan_skip_right(net, loader, opt, n):
    for i, (x, y) in enumerate(loader):
        loss = F.mse_loss(net(x), y, reduction="sum")
        if not torch.isfinite(loss):
            opt.zero_grad()
            continue
        loss.backward()
        if (i + 1) % n == 0 or i + 1 == len(loader):
            opt.step()
            opt.zero_grad()


def cond_k(net, loader, opt, n):
    last = 0
    for ni, (x, y) in enumerate(loader):
        (F.cross_entropy(net(x), y, ignore_index=0) / n).backward()  # expect: ACC101
        if ni - last >= n:  # expect: ACC304
            opt.step()
            opt.zero_grad()
            last = ni
