# mechanism: the divided losses are averaged over the microbatches once more
import torch
import torch.nn.functional as F


def train(model, bank, optimizer, accum, total):
    seen, running = 0, 0.0
    for i in range(total):
        x = bank[torch.randint(0, len(bank), (8,))]
        loss = F.l1_loss(model(x), x) / accum
        loss.backward()
        running += loss.item()
        seen += 1
        if (i + 1) % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    print("mean loss", running / seen)  # expect-optin: ACC403
