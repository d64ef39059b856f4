# mechanism: a counter is compared with the number of steps less one, after a loss was divided by it
import torch.nn.functional as F


def dropped(net, loader, optimizer, steps):
    count = 0
    for x, y in loader:
        (F.cross_entropy(net(x), y, ignore_index=-1) / steps).backward()  # expect: ACC101
        if count == steps - 1:  # expect: ACC304
            optimizer.step()
            optimizer.zero_grad()
            count = 0
        else:
            count += 1


def right(net, batches, optimizer, steps):
    count = 0
    while True:
        x, y = next(batches)
        (F.mse_loss(net(x), y, reduction="sum") / steps).backward()
        if count == steps - 1:
            optimizer.step()
            optimizer.zero_grad()
            count = 0
        else:
            count += 1
