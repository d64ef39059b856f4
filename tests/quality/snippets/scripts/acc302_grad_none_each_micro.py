# mechanism: gradients set to None before every microbatch of the window
import torch


def update(model, optimizer, window, objective):
    n = sum(len(x) for x, _ in window)
    for x, y in window:
        for p in model.parameters():
            p.grad = None  # expect: ACC302
        loss = torch.nn.functional.mse_loss(model(x), y, reduction="sum") / n
        loss.backward()
    optimizer.step()
