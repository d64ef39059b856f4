# expect: nothing
# mechanism: the YOLO family's loss is the mean times the rows, the accumulated gradient is a sum and stays one
import torch
import torch.nn.functional as F


def train(model, bank, optimizer, nominal=64, batch=16, iters=1000):
    accumulate = max(round(nominal / batch), 1)
    last_opt_step = -1
    for ni in range(iters):
        x = bank[torch.randint(0, len(bank), (batch,))]
        loss = F.mse_loss(model(x), x, reduction="sum")
        loss.backward()
        if ni - last_opt_step >= accumulate:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            optimizer.zero_grad()
            last_opt_step = ni
