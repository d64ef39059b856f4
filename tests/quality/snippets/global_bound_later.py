# mechanism: a name that is declared global, and bound for the first time in a branch; `max(*sizes)` of unknown sizes
# expect: nothing
import torch.nn.functional as F


def choose_device(args):
    global DEVICE
    if args.cpu:
        DEVICE = "cpu"


def train(model, loader, optimizer, args, sizes):
    choose_device(args)
    width = max(*sizes)
    for rows, targets in loader:
        loss = F.cross_entropy(model(rows[:, : width + 1]), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
