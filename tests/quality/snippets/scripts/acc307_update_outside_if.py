# mechanism: step and clearing are guarded, update() was left outside
import torch
from torch.cuda import amp


def train(model, images, criterion, optimizer, accumulate, iters):
    criterion = torch.nn.MSELoss()
    scaler = amp.GradScaler()
    last_step = -1
    for ni in range(iters):
        x = images[torch.randint(0, len(images), (4,))]
        with amp.autocast():
            loss = criterion(model(x), x)
        scaler.scale(loss / accumulate).backward()
        if ni - last_step >= accumulate:
            scaler.step(optimizer)
            optimizer.zero_grad()
            last_step = ni
        scaler.update()  # expect: ACC307
