# mechanism: model.zero_grad() is no method of the prepared optimizer and clears on every microbatch
import torch
import torch.nn.functional as F
from accelerate import Accelerator


def fit(net, images, accum, updates):
    accelerator = Accelerator(gradient_accumulation_steps=accum, mixed_precision="fp16")
    opt = torch.optim.AdamW(net.parameters())
    net, opt = accelerator.prepare(net, opt)
    for _ in range(updates * accum):
        batch = images[torch.randint(0, len(images), (8,))]
        with accelerator.accumulate(net):
            loss = F.mse_loss(net(batch), batch)
            accelerator.backward(loss)
            opt.step()
            net.zero_grad()  # expect: ACC302
