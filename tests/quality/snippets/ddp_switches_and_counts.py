# mechanism: DDP's switches of synchronisation, and counts that are summed or averaged over ranks
import contextlib
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def nosync_right(net, loader, steps):
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % steps == 0 or i + 1 == len(loader)
        with contextlib.nullcontext() if last else model.no_sync():
            F.mse_loss(model(x), y, reduction="sum").backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()


def require_right(net, loader, steps):
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % steps == 0 or i + 1 == len(loader)
        model.require_backward_grad_sync = last
        F.mse_loss(model(x), y, reduction="sum").backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()


def require_wrong(net, loader, steps):
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % steps == 0 or i + 1 == len(loader)
        model.require_backward_grad_sync = not last  # expect: ACC308
        F.mse_loss(model(x), y, reduction="sum").backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()


def exit_stack(net, loader, steps):
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % steps == 0 or i + 1 == len(loader)
        with contextlib.ExitStack() as stack:
            if i % steps == 0:
                stack.enter_context(model.no_sync())
            F.mse_loss(model(x), y, reduction="sum").backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()


def mean_of_counts_right(net, batches, steps):
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        window = [next(batches) for _ in range(steps)]
        n = torch.tensor(sum((y != -100).sum() for _, y in window))
        dist.all_reduce(n, op=dist.ReduceOp.AVG)
        for x, y in window:
            (F.cross_entropy(model(x), y, ignore_index=-100, reduction="sum") / n).backward()
        optimizer.step()
        optimizer.zero_grad()


def sum_of_counts(net, batches, steps):
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        window = [next(batches) for _ in range(steps)]
        n = torch.tensor(sum((y != -100).sum() for _, y in window))
        dist.all_reduce(n, op=dist.ReduceOp.SUM)
        for x, y in window:
            (F.cross_entropy(model(x), y, ignore_index=-100, reduction="sum") / n).backward()  # expect: ACC106
        optimizer.step()
        optimizer.zero_grad()


def local_counts(net, batches, steps):
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        window = [next(batches) for _ in range(steps)]
        n = sum((y != -100).sum() for _, y in window)
        for x, y in window:
            (F.cross_entropy(model(x), y, ignore_index=-100, reduction="sum") / n).backward()  # expect: ACC106
        optimizer.step()
        optimizer.zero_grad()


def functional_all_reduce(net, batches, steps):
    from torch.distributed.nn.functional import all_reduce

    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        window = [next(batches) for _ in range(steps)]
        n = torch.tensor(sum((y != -100).sum() for _, y in window))
        n = all_reduce(n)
        for x, y in window:
            (F.cross_entropy(model(x), y, ignore_index=-100, reduction="sum") / n).backward()  # expect: ACC106
        optimizer.step()
        optimizer.zero_grad()


def gathered_list(net, batches, steps):
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    world = dist.get_world_size()
    while True:
        window = [next(batches) for _ in range(steps)]
        n = torch.tensor(sum((y != -100).sum() for _, y in window))
        counts = [torch.zeros_like(n) for _ in range(world)]
        dist.all_gather(counts, n)
        total = torch.stack(counts).sum()
        for x, y in window:
            (F.cross_entropy(model(x), y, ignore_index=-100, reduction="sum") * world / total).backward()
        optimizer.step()
        optimizer.zero_grad()
