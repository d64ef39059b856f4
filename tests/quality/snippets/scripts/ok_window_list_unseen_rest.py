# expect: nothing
# mechanism: batches are collected until a window is full; the rest is data that is not used, no gradient is lost
import torch
from torch.utils.data import DataLoader


def fit(net, dataset, opt, accum, epochs):
    loader = DataLoader(dataset, batch_size=16, shuffle=True, drop_last=True)
    for _ in range(epochs):
        waiting = []
        for batch in loader:
            waiting.append(batch)
            if len(waiting) == accum:
                opt.zero_grad()
                for x, y in waiting:
                    (torch.nn.functional.mse_loss(net(x), y) / accum).backward()
                opt.step()
                waiting = []
