# mechanism: plain loss.backward() inside accumulate(): only accelerator.backward divides
import torch
import torch.nn.functional as F
from accelerate import Accelerator


def main(model, x, y, updates):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    for _ in range(updates * 4):
        rows = torch.randint(0, len(x), (16,))
        with accelerator.accumulate(model):
            loss = F.mse_loss(model(x[rows]), y[rows])
            loss.backward()  # expect: ACC103
            optimizer.step()
            optimizer.zero_grad()
