# mechanism: the counter was bumped already and the test adds one more
import torch
import torch.nn.functional as F


def train(model, rows, optimizer, accum, total):
    micro = 0
    while micro < total:
        x = rows[torch.randint(0, len(rows), (8,))]
        loss = F.mse_loss(model(x), x) / accum
        loss.backward()
        micro += 1
        if (micro + 1) % accum == 0:  # expect: ACC305
            optimizer.step()
            optimizer.zero_grad()
