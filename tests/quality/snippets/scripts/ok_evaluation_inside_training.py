# expect: nothing
# mechanism: validation inside the training loop, logging divisions, early stopping, no accumulation
import torch
import torch.nn.functional as F


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total, n = 0.0, 0
    for x, y in loader:
        total += F.cross_entropy(model(x), y).item()
        n += 1
    model.train()
    return total / n


def train(model, train_loader, val_loader, optimizer, log_every=50, eval_every=500, patience=5):
    best, bad, running = float("inf"), 0, 0.0
    for step, (x, y) in enumerate(train_loader, 1):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        if step % log_every == 0:
            print(step, running / log_every)
            running = 0.0
        if step % eval_every == 0:
            value = evaluate(model, val_loader)
            if value < best:
                best, bad = value, 0
                torch.save(model.state_dict(), "best.pt")
            else:
                bad += 1
                if bad >= patience:
                    break
