# expect: nothing
# mechanism: `accumulate` is the name of an EMA helper
import torch
import torch.nn.functional as F


def accumulate(target, source, decay=0.999):
    with torch.no_grad():
        for p, q in zip(target.parameters(), source.parameters()):
            p.mul_(decay).add_(q, alpha=1 - decay)


def train(net, ema, loader, optimizer):
    for step, (x, y) in enumerate(loader):
        loss = F.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            accumulate(ema, net)
