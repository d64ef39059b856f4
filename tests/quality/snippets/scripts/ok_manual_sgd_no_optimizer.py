# expect: nothing
# mechanism: no optimizer object: weights are moved and gradients zeroed by hand, once a batch
import torch


def train(model, loader, lr=0.1):
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= lr * p.grad
                p.grad.zero_()
