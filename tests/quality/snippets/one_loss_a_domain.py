# mechanism: a loop over streams, one batch of each: a sum over domains needs no division
import torch.nn.functional as F


def train(model, streams, opt, steps):  # expect: nothing
    for _ in range(steps):
        opt.zero_grad()
        for stream in streams:
            x, y = next(stream)
            F.cross_entropy(model(x), y).backward()
        opt.step()
