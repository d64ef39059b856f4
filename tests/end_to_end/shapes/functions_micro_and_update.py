"""A forward/backward function, an update function, and a loop that calls both."""

from torch.nn import functional as F


def forward_backward(net, batch, parts):
    out = net(batch["x"])
    loss = F.cross_entropy(out.transpose(1, 2), batch["y"], ignore_index=-100)
    (loss / parts).backward()  # expect: ACC101, ACC107


def update(opt):
    opt.step()
    opt.zero_grad()


def train(net, loader, opt, parts=4):
    total = len(loader)
    for step, batch in enumerate(loader):
        forward_backward(net, batch, parts)
        if (step + 1) % parts == 0 or step + 1 == total:
            update(opt)
