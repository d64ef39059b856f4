# expect: nothing
# mechanism: one backward a task on the same batch, one step
import torch
from torch import nn
from torch.utils.data import DataLoader


def train(body, heads, dataset, weights, epochs):
    params = [*body.parameters(), *(p for h in heads.values() for p in h.parameters())]
    optimizer = torch.optim.AdamW(params)
    mse = nn.MSELoss()
    for _ in range(epochs):
        for x, targets in DataLoader(dataset, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            for name, head in heads.items():
                loss = weights[name] * mse(head(body(x)), targets[name])
                loss.backward()
            optimizer.step()
