# mechanism: a notebook's flat loop: the last batches of an epoch wait for the next one
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

X, Y = torch.randn(500, 10), torch.randint(0, 3, (500,))
train_dl = DataLoader(TensorDataset(X, Y), batch_size=16, shuffle=True, drop_last=True)
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters())
crit = nn.CrossEntropyLoss()
ACC = 4

for ep in range(5):
    net.train()
    for i, (xb, yb) in enumerate(train_dl):
        loss = crit(net(xb), yb) / ACC
        loss.backward()
        if (i + 1) % ACC == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()
