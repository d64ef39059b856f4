# expect: nothing
# mechanism: a frozen backbone in eval mode, LayerNorm head, equal counts
import torch
from torch import nn
from torch.utils.data import DataLoader


def train(backbone, dataset, width, classes, accum, epochs):
    backbone.eval()
    for p in backbone.parameters():
        p.requires_grad_(False)
    head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))
    opt = torch.optim.AdamW(head.parameters())
    loader = DataLoader(dataset, batch_size=32, shuffle=True, drop_last=True)
    whole = len(loader) - len(loader) % accum
    for _ in range(epochs):
        for i, (x, y) in enumerate(loader):
            if i >= whole:
                break
            with torch.no_grad():
                z = backbone(x)
            loss = nn.functional.cross_entropy(head(z), y) / accum
            loss.backward()
            if (i + 1) % accum == 0:
                opt.step()
                opt.zero_grad()
