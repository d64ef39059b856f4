# mechanism: K is a number of another module; the backward is in a helper of the script
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from project import data, model, accum

opt = torch.optim.AdamW(model.parameters())
loader = DataLoader(data, batch_size=8, drop_last=True)


def run(x, y):
    loss = F.cross_entropy(model(x), y) / accum
    loss.backward()
    return loss.item()


for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        run(x, y)
        if (i + 1) % accum == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()
