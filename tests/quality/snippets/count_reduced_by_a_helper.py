# mechanism: a helper of another file adds the count up over the ranks
import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from utils import reduce_sum


def train(net, stream, updates, accum=4):  # expect: nothing
    model = DDP(net)
    opt = torch.optim.AdamW(model.parameters())
    for _ in range(updates):
        window = [next(stream) for _ in range(accum)]
        n = sum((y != -100).sum() for _, y in window)
        reduce_sum(n)
        for x, y in window:
            (F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / n).backward()
        opt.step()
        opt.zero_grad()
