# expect: nothing
# mechanism: the rest after the loop is divided by its own length, equal counts
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(net, dataset, opt, accum):
    loader = DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True)
    held = []
    for x, y in loader:
        held.append((x, y))
        if len(held) == accum:
            for a, b in held:
                (F.mse_loss(net(a), b) / len(held)).backward()
            opt.step()
            opt.zero_grad()
            held = []
    if held:
        for a, b in held:
            (F.mse_loss(net(a), b) / len(held)).backward()
        opt.step()
        opt.zero_grad()
