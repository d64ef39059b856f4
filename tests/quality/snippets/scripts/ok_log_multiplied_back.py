# expect: nothing
# mechanism: the logged loss is multiplied by the number of steps again
import torch
import torch.nn.functional as F


def train(model, bank, optimizer, accum, updates, writer):
    for update in range(updates):
        for _ in range(accum):
            x = bank[torch.randint(0, len(bank), (8,))]
            loss = F.mse_loss(model(x), x) / accum
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        writer.add_scalar("loss", loss.item() * accum, update)
