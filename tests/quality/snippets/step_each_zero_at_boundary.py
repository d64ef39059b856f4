# mechanism: a helper divides and runs backward; the step is not guarded, the clearing is
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


def micro(net, x, y, steps):
    loss = F.mse_loss(net(x), y)
    loss /= steps
    loss.backward()


def train(net, data, steps):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=16, drop_last=True)
    for number, (x, y) in enumerate(loader):
        micro(net, x, y, steps)
        optimizer.step()  # expect: ACC301
        if (number + 1) % steps == 0 or number + 1 == len(loader):
            optimizer.zero_grad()
