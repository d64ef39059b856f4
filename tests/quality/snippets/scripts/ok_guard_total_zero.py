# expect: nothing
# mechanism: a window without any target is skipped on the global count, for all ranks alike
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def train(net, windows, device):
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for window in windows:
        n = torch.tensor(sum(int((b["y"] != -100).sum()) for b in window), device=device)
        dist.all_reduce(n)
        if n == 0:
            continue
        for b in window:
            logits = model(b["x"].to(device))
            s = F.cross_entropy(logits.flatten(0, 1), b["y"].to(device).flatten(), reduction="sum")
            (s * dist.get_world_size() / n).backward()
        opt.step()
        opt.zero_grad()
