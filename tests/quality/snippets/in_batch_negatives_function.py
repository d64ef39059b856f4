# mechanism: in-batch negatives in one function, labels from arange: coupled, so no weight is right
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(encoder, data, steps, optimizer):
    loader = DataLoader(data, batch_size=32, shuffle=True)
    for index, (left, right) in enumerate(loader):
        scores = encoder(left) @ encoder(right).T
        target = torch.arange(scores.size(0), device=scores.device)
        loss = F.cross_entropy(scores / 0.05, target) / steps
        loss.backward()  # expect-optin: ACC402
        if (index + 1) % steps == 0 or index + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
