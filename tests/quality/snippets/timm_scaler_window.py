# mechanism: a scaler object that does backward, clip and step in one call steps where an argument says so: no `if`
# stands around the step, so its boundary is the call
from timm.utils import NativeScaler
from torch.nn import functional as F


def from_zero(model, loader, optimizer, args):
    scaler = NativeScaler()
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = F.mse_loss(model(x), y, reduction="sum")
        due = i % args.accum == 0
        scaler(loss, optimizer, clip_grad=1, parameters=model.parameters(), need_update=due)  # expect: ACC304, ACC305
        if due:
            optimizer.zero_grad()


def equal_means(model, loader, optimizer, args):
    scaler = NativeScaler()
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y, ignore_index=255) / args.accum
        due = (i + 1) % args.accum == 0
        scaler(loss, optimizer, clip_grad=1, parameters=model.parameters(), need_update=due)  # expect: ACC101, ACC304
        if due:
            optimizer.zero_grad()


def right(model, loader, optimizer, args):
    scaler = NativeScaler()
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = F.mse_loss(model(x), y, reduction="sum")
        due = (i + 1) % args.accum == 0 or i + 1 == len(loader)
        scaler(loss, optimizer, clip_grad=1, parameters=model.parameters(), need_update=due)
        if due:
            optimizer.zero_grad()
