# mechanism: `i % 8` is 0 on the first microbatch, and a loop of the usual length never saw the whole window behind it
import torch.nn.functional as F
from lightning.fabric import Fabric


def train(model, optimizer, loader):
    fabric = Fabric()
    model, optimizer = fabric.setup(model, optimizer)
    for i, (x, y) in enumerate(fabric.setup_dataloaders(loader)):
        accumulating = i % 8 != 0
        with fabric.no_backward_sync(model, enabled=accumulating):
            fabric.backward(F.mse_loss(model(x), y))  # expect: ACC103
        if not accumulating:  # expect: ACC304, ACC305
            optimizer.step()
            optimizer.zero_grad()
