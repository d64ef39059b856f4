# expect: nothing
# mechanism: Fabric's all_reduce averages by default: dividing by the mean count is the world size over the sum
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric


def train(fabric: Fabric, net, opt, windows):
    for window in windows:
        tokens = sum(int(labels.ne(-100).sum()) for _, labels in window)
        mean_tokens = fabric.all_reduce(torch.tensor(float(tokens), device=fabric.device))
        for i, (ids, labels) in enumerate(window):
            with fabric.no_backward_sync(net, enabled=i < len(window) - 1):
                nll = F.cross_entropy(net(ids).flatten(0, 1), labels.flatten(), reduction="sum")
                fabric.backward(nll / mean_tokens)
        opt.step()
        opt.zero_grad()
