# mechanism: plain script: the default loader keeps a short last batch, the window's own length is the divisor
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--accum", type=int, default=4)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

features = torch.randn(1003, 8)
values = features.sum(1, keepdim=True)
loader = DataLoader(TensorDataset(features, values), batch_size=args.batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters())
mse = nn.MSELoss()

for epoch in range(args.epochs):
    epoch_loss = 0.0
    for i, (x, y) in enumerate(loader):
        start = i - i % args.accum
        window = min(args.accum, len(loader) - start)
        loss = mse(model(x), y)
        epoch_loss += loss.item() * x.size(0)
        (loss / window).backward()  # expect: ACC102
        if (i + 1) % args.accum == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, epoch_loss / len(features))
