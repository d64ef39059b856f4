# expect: nothing
# mechanism: the Accelerator has no number of steps, so the manual division is the only one
import torch
import torch.nn.functional as F
from accelerate import Accelerator


def main(net, bank, updates, accum):
    accelerator = Accelerator(mixed_precision="bf16")
    opt = torch.optim.AdamW(net.parameters())
    net, opt = accelerator.prepare(net, opt)
    for _ in range(updates):
        for _ in range(accum):
            x = bank[torch.randint(0, len(bank), (16,))]
            accelerator.backward(F.mse_loss(net(x), x) / accum)
        accelerator.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
