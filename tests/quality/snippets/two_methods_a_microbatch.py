# mechanism: Fabric's clocks, and classes of which the caller calls two methods a microbatch: they know when to step
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric
from torch.utils.data import DataLoader


def fabric_scheduler(net, data, steps, sched):
    fabric = Fabric()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    net, opt = fabric.setup(net, opt)
    loader = fabric.setup_dataloaders(DataLoader(data, batch_size=4, drop_last=True))
    whole = len(loader) // steps * steps
    for i, (x, y) in enumerate(loader):
        if i >= whole:
            break
        with fabric.no_backward_sync(net, enabled=(i + 1) % steps != 0):
            fabric.backward(F.mse_loss(net(x), y) / steps)
        if (i + 1) % steps == 0:
            opt.step()
            opt.zero_grad()
        sched.step()  # expect: ACC306


def fabric_no_step_guard(net, data, steps):
    fabric = Fabric()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    net, opt = fabric.setup(net, opt)
    loader = fabric.setup_dataloaders(DataLoader(data, batch_size=4, drop_last=True))
    for i, (x, y) in enumerate(loader):
        fabric.backward(F.mse_loss(net(x), y) / steps)
        fabric.clip_gradients(net, opt, max_norm=1.0)
        opt.step()  # expect: ACC301
        if (i + 1) % steps == 0:
            opt.zero_grad()


class Buffered:
    """Two public methods; the caller alternates."""

    def __init__(self, model, accum):
        self.model, self.accum = model, accum
        self.optimizer = torch.optim.Adam(model.parameters())
        self.seen = 0
        self.targets = 0

    def accumulate(self, x, y):
        F.cross_entropy(self.model(x), y, ignore_index=-100, reduction="sum").backward()
        self.targets += (y != -100).sum()
        self.seen += 1

    def maybe_step(self):
        if self.seen < self.accum:
            return False
        for p in self.model.parameters():
            if p.grad is not None:
                p.grad.div_(self.targets)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.seen = self.targets = 0
        return True


class BufferedMeans:
    def __init__(self, model, accum):
        self.model, self.accum = model, accum
        self.optimizer = torch.optim.Adam(model.parameters())
        self.seen = 0

    def accumulate(self, x, y):
        F.cross_entropy(self.model(x), y, ignore_index=-100).backward()  # expect: ACC101
        self.seen += 1

    def maybe_step(self):
        if self.seen < self.accum:
            return False
        for p in self.model.parameters():
            if p.grad is not None:
                p.grad.div_(self.accum)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.seen = 0
        return True
