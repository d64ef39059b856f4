# mechanism: a mean of each microbatch, divided once more by the tokens of the window
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(model, data, opt, accum=4):
    dl = DataLoader(data, batch_size=8)
    tokens = 0
    for i, (x, y) in enumerate(dl):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        loss.backward()  # expect: ACC101
        tokens += (y != -100).sum().item()
        if (i + 1) % accum == 0 or i + 1 == len(dl):
            for p in model.parameters():
                p.grad.div_(tokens)
            opt.step()
            opt.zero_grad()
            tokens = 0
