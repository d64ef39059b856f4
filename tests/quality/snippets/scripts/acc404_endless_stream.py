# mechanism: an endless stream of batches of unknown size under Accelerate
import torch
import torch.nn.functional as F
from accelerate import Accelerator


def train(net, stream, updates, accum):
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    opt = torch.optim.AdamW(net.parameters())
    net, opt = accelerator.prepare(net, opt)
    source = iter(stream)
    for _ in range(updates * accum):
        x, y = next(source)
        with accelerator.accumulate(net):
            accelerator.backward(F.mse_loss(net(x), y))  # expect-optin: ACC404
            opt.step()
            opt.zero_grad()
