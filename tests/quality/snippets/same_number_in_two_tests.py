# mechanism: `count > 1` and `count == 1` are asked of one number: they cannot both hold on a path
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(net, optimizer, data, count):
    loader = DataLoader(data, batch_size=8, drop_last=True)
    if count > 1:
        optimizer.zero_grad()
    for index, (x, y) in enumerate(loader):
        if count == 1:
            optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss = loss / count
        loss.backward()
        if (index + 1) % count == 0:  # expect: ACC304
            optimizer.step()
            if count > 1:
                optimizer.zero_grad()
