# expect: nothing
# mechanism: fixed blocks, require_backward_grad_sync set before the forward of the last microbatch
import numpy as np
import torch
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def get_batch(data, block_size, batch_size, device):
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in ix])
    return x.to(device), y.to(device)


def train(net, path, device, max_iters, gradient_accumulation_steps=8, block_size=256, batch_size=12):
    data = np.memmap(path, dtype=np.uint16, mode="r")
    model = DDP(net, device_ids=[device])
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=True)
    X, Y = get_batch(data, block_size, batch_size, device)
    for it in range(max_iters):
        lr = 6e-4 * min(1.0, (it + 1) / 100)
        for group in optimizer.param_groups:
            group["lr"] = lr
        for micro_step in range(gradient_accumulation_steps):
            model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
            with torch.autocast("cuda", dtype=torch.float16):
                logits = model(X)
                loss = F.cross_entropy(logits.view(-1, logits.size(-1)), Y.view(-1))
                loss = loss / gradient_accumulation_steps
            X, Y = get_batch(data, block_size, batch_size, device)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if it % 10 == 0:
            print(f"iter {it}: loss {loss.item() * gradient_accumulation_steps:.4f}")
