# expect: nothing
# mechanism: free adversarial training replays a batch m times and steps on each replay
import torch
import torch.nn.functional as F


def train(model, loader, optimizer, scheduler, m=4, eps=8 / 255):
    delta = None
    for x, y in loader:
        if delta is None or delta.shape != x.shape:
            delta = torch.zeros_like(x)
        for _ in range(m):
            noise = delta.detach().requires_grad_(True)
            loss = F.cross_entropy(model(x + noise), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            delta = (noise + eps * noise.grad.sign()).clamp(-eps, eps).detach()
