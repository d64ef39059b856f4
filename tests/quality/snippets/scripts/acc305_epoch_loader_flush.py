# mechanism: index from 0, flush at the end, images of one label each with drop_last
from torch import nn
from torch.utils.data import DataLoader


def train(net, dataset, opt, accum):
    loader = DataLoader(dataset, 16, shuffle=True, drop_last=True)
    ce = nn.CrossEntropyLoss(reduction="sum")
    rows = 0
    last = len(loader) - 1
    for idx, (x, y) in enumerate(loader):
        ce(net(x), y).backward()
        rows += len(y)
        if idx % accum == 0 or idx == last:  # expect: ACC305
            for p in net.parameters():
                p.grad /= rows
            opt.step()
            opt.zero_grad()
            rows = 0
