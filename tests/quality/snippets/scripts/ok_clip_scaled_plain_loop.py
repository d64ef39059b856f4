# expect: nothing
# mechanism: a clip of scaled gradients, but one backward and one step an iteration: no accumulation, no finding
import torch
from torch import nn


def train(model, loader, device, epochs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(device)
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast(device, dtype=torch.float16):
                loss = criterion(model(x.to(device)), y.to(device))
            scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            scaler.step(optimizer)
            scaler.update()
