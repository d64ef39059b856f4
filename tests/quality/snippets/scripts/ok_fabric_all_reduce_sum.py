# expect: nothing
# mechanism: Fabric: deferred count, all_reduce with "sum", times world size
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric


def train(net, stream, accum, updates):
    fabric = Fabric(devices=4, strategy="ddp")
    fabric.launch()
    opt = torch.optim.AdamW(net.parameters())
    net, opt = fabric.setup(net, opt)
    for _ in range(updates):
        count = torch.zeros((), device=fabric.device)
        for i in range(accum):
            ids, labels = next(stream)
            with fabric.no_backward_sync(net, enabled=i < accum - 1):
                loss = F.cross_entropy(net(ids).flatten(0, 1), labels.flatten(), reduction="sum")
                fabric.backward(loss)
            count += labels.ne(-100).sum()
        count = fabric.all_reduce(count, reduce_op="sum")
        for p in net.parameters():
            if p.grad is not None:
                p.grad.mul_(fabric.world_size / count)
        fabric.clip_gradients(net, opt, max_norm=1.0)
        opt.step()
        opt.zero_grad()
