# mechanism: OneCycleLR steps with every microbatch, the optimizer with every window
import torch
import torch.nn.functional as F


def train(model, bank, accum, updates, max_lr=0.1):
    optimizer = torch.optim.SGD(model.parameters(), lr=max_lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=max_lr, total_steps=updates)
    for i in range(updates * accum):
        x = bank[torch.randint(0, len(bank), (8,))]
        loss = F.mse_loss(model(x), x) / accum
        loss.backward()
        if (i + 1) % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step()  # expect: ACC306
