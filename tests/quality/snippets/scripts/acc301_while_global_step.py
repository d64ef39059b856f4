# mechanism: the step outside of the test, zero_grad inside
import torch
import torch.nn.functional as F


def run(model, table, accum=8, limit=4096):
    optimizer = torch.optim.Adagrad(model.parameters())
    step = 0
    while step < limit:
        rows = table[torch.randint(len(table), (2,))]
        loss = F.mse_loss(model(rows), rows)
        loss = loss / accum
        loss.backward()
        optimizer.step()  # expect: ACC301
        step += 1
        if step % accum == 0:
            optimizer.zero_grad()
