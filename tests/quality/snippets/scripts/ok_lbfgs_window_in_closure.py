# expect: nothing
# mechanism: LBFGS closure holds the whole window: clears, all microbatches, one normaliser
import torch
import torch.nn.functional as F


def fit(model, parts, iterations):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=10)
    total = sum(y.numel() for _, y in parts)

    def closure():
        optimizer.zero_grad()
        value = 0.0
        for x, y in parts:
            loss = F.mse_loss(model(x), y, reduction="sum") / total
            loss.backward()
            value += loss.item()
        return torch.tensor(value)

    for _ in range(iterations):
        optimizer.step(closure)
