# mechanism: what FSDP2 divides by is set by a method: 1 wants no world size, the number of ranks wants it
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard


def off_no_world(net, batches, accum, steps):
    model = fully_shard(net)
    model.set_gradient_divide_factor(1.0)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        micro = [next(batches) for _ in range(accum)]
        n = sum((y != -100).sum() for _, y in micro)
        dist.all_reduce(n)
        for x, y in micro:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / n
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def off_with_world(net, batches, accum, steps):
    model = fully_shard(net)
    model.set_gradient_divide_factor(1.0)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        micro = [next(batches) for _ in range(accum)]
        n = sum((y != -100).sum() for _, y in micro)
        dist.all_reduce(n)
        for x, y in micro:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") * dist.get_world_size() / n
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def world_factor_no_world(net, batches, accum, steps):
    model = fully_shard(net)
    model.set_gradient_divide_factor(dist.get_world_size())
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        micro = [next(batches) for _ in range(accum)]
        n = sum((y != -100).sum() for _, y in micro)
        dist.all_reduce(n)
        for x, y in micro:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / n
            loss.backward()  # expect: ACC106
        optimizer.step()
        optimizer.zero_grad()


def world_factor_and_world(net, batches, accum, steps):
    model = fully_shard(net)
    world = dist.get_world_size()
    model.set_gradient_divide_factor(float(world))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        micro = [next(batches) for _ in range(accum)]
        n = sum((y != -100).sum() for _, y in micro)
        dist.all_reduce(n)
        for x, y in micro:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") * world / n
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def global_factor(net, batches, accum, steps):
    model = fully_shard(net)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        micro = [next(batches) for _ in range(accum)]
        n = sum((y != -100).sum() for _, y in micro)
        dist.all_reduce(n)
        model.set_gradient_divide_factor(n.item())
        for x, y in micro:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def default_no_world(net, batches, accum, steps):
    model = fully_shard(net)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        micro = [next(batches) for _ in range(accum)]
        n = sum((y != -100).sum() for _, y in micro)
        dist.all_reduce(n)
        for x, y in micro:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / n
            loss.backward()  # expect: ACC106
        optimizer.step()
        optimizer.zero_grad()
