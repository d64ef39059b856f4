# mechanism: missing readings are indexed away, so each microbatch is a mean over another number of values
import torch


def train_epoch(model, loader, optimizer, accum):
    model.train()
    window = []
    for batch in loader:
        window.append(batch)
        if len(window) < accum:
            continue
        optimizer.zero_grad()
        for series, target in window:
            prediction = model(series)
            observed = ~torch.isnan(target)
            loss = (prediction[observed] - target[observed]).abs().mean()
            (loss / len(window)).backward()  # expect: ACC101
        optimizer.step()
        window.clear()
    if window:
        optimizer.zero_grad()
        for series, target in window:
            prediction = model(series)
            observed = ~torch.isnan(target)
            loss = (prediction[observed] - target[observed]).abs().mean()
            (loss / len(window)).backward()  # expect: ACC101
        optimizer.step()
