# mechanism: `continue` until the window is full, flush by a second test, loader of unknown last batch
import torch.nn as nn
from tqdm import tqdm


def train_epoch(model, loader, optimizer, device, steps):
    criterion = nn.BCEWithLogitsLoss()
    pending = 0
    bar = tqdm(loader, total=len(loader))
    for x, y in bar:
        pred = model(x.to(device))
        loss = criterion(pred, y.to(device).float())
        loss = loss / steps
        loss.backward()  # expect: ACC102
        pending += 1
        if pending < steps:  # expect: ACC304
            continue
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        pending = 0
