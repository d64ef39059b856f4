# expect: nothing
# mechanism: the divisor is switched for the last window
from torch import nn
from torch.utils.data import DataLoader


def train(model, dataset, optimizer, accum):
    loader = DataLoader(dataset, batch_size=16, shuffle=True, drop_last=True)
    criterion = nn.CrossEntropyLoss()
    n = len(loader)
    rest = n % accum
    for i, (x, y) in enumerate(loader):
        divisor = rest if rest and i >= n - rest else accum
        loss = criterion(model(x), y) / divisor
        loss.backward()
        if (i + 1) % accum == 0 or i == n - 1:
            optimizer.step()
            optimizer.zero_grad()
