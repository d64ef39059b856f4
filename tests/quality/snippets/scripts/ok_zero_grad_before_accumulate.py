# expect: nothing
# mechanism: the prepared optimizer's zero_grad before the accumulate block acts right after a sync
import torch
import torch.nn.functional as F
from accelerate import Accelerator


def main(net, bank, accum, updates):
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    opt = torch.optim.AdamW(net.parameters())
    net, opt = accelerator.prepare(net, opt)
    for _ in range(updates * accum):
        x = bank[torch.randint(0, len(bank), (8,))]
        opt.zero_grad()
        with accelerator.accumulate(net):
            accelerator.backward(F.mse_loss(net(x), x))
            opt.step()
