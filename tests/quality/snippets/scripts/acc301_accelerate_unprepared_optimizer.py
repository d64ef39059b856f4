# mechanism: the optimizer was not prepared, so its step inside accumulate() is not gated
import torch
import torch.nn.functional as F
from accelerate import Accelerator


def main(model, states, targets, updates, accum=4):
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model = accelerator.prepare(model)
    for _ in range(updates * accum):
        rows = torch.randint(0, len(states), (16,))
        with accelerator.accumulate(model):
            loss = F.mse_loss(model(states[rows]), targets[rows])
            accelerator.backward(loss)
            optimizer.step()  # expect: ACC301
            if accelerator.sync_gradients:
                optimizer.zero_grad()
