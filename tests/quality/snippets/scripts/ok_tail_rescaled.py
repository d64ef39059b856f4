# expect: nothing
# mechanism: the short last window's gradients are multiplied by K over its length before the step
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(model, dataset, optimizer, K, epochs):
    loader = DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True)
    for _ in range(epochs):
        pending = 0
        for x, y in loader:
            (F.mse_loss(model(x), y) / K).backward()
            pending += 1
            if pending == K:
                optimizer.step()
                optimizer.zero_grad()
                pending = 0
        if pending:
            for p in model.parameters():
                p.grad.mul_(K / pending)
            optimizer.step()
            optimizer.zero_grad()
