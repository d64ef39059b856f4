# mechanism: BatchNorm1d in a Sequential trained in microbatches
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, x):
        return self.layers(x)


def train(bank, accum=4, updates=100):
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(updates):
        for _ in range(accum):
            x = bank[torch.randint(0, len(bank), (16,))]
            loss = nn.functional.mse_loss(net(x), x) / accum
            loss.backward()  # expect-optin: ACC401
        opt.step()
        opt.zero_grad()
