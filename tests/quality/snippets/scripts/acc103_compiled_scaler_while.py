# mechanism: a compiled model under AMP, `while` over updates, the loss is scaled for fp16 but not for the window
import numpy as np
import torch
from torch.nn import functional as F

BLOCK, BATCH, STEPS = 256, 12, 5
data = np.memmap("train.bin", dtype=np.uint16, mode="r")


def get_batch():
    starts = torch.randint(len(data) - BLOCK, (BATCH,)).tolist()
    x = torch.stack([torch.from_numpy(data[i : i + BLOCK].astype(np.int64)) for i in starts])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + BLOCK].astype(np.int64)) for i in starts])
    return x.cuda(), y.cuda()


def pretrain(model, max_iters):
    model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)
    scaler = torch.amp.GradScaler("cuda")
    iteration = 0
    X, Y = get_batch()
    while True:
        for micro_step in range(STEPS):
            with torch.amp.autocast("cuda", dtype=torch.float16):
                logits = model(X)
                loss = F.cross_entropy(logits.view(-1, logits.size(-1)), Y.view(-1))
            X, Y = get_batch()
            scaler.scale(loss).backward()  # expect: ACC103
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        iteration += 1
        if iteration > max_iters:
            break
