# mechanism: an Accelerator with steps divides, one without does not: both spellings that are right, and one clip each
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader


def manual_division_without_steps(model, optimizer, data, steps):
    accelerator = Accelerator()
    loader = DataLoader(data, batch_size=8, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    whole = len(loader) // steps * steps
    for i, (x, y) in enumerate(loader):
        if i == whole:
            break
        accelerator.backward(F.mse_loss(model(x), y) / steps)
        if (i + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def divided_by_gathered_mean(model, optimizer, data, steps):
    accelerator = Accelerator(gradient_accumulation_steps=steps)
    loader = DataLoader(data, batch_size=8, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    whole = len(loader) // steps * steps
    for i, (x, y) in enumerate(loader):
        if i == whole:
            break
        with accelerator.accumulate(model):
            loss = F.mse_loss(model(x), y)
            logged = accelerator.gather(loss.detach()).mean() / steps
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        print(logged)


def manual_boundary(model, optimizer, data, steps):
    accelerator = Accelerator(gradient_accumulation_steps=steps)
    loader = DataLoader(data, batch_size=8, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    whole = len(loader) // steps * steps
    for i, (x, y) in enumerate(loader):
        if i == whole:
            break
        with accelerator.accumulate(model):
            loss = F.mse_loss(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_value_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()


def fp16_norm(model, optimizer, data, steps):
    accelerator = Accelerator(gradient_accumulation_steps=steps, mixed_precision="fp16")
    loader = DataLoader(data, batch_size=8, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    whole = len(loader) // steps * steps
    for i, (x, y) in enumerate(loader):
        if i == whole:
            break
        with accelerator.accumulate(model):
            accelerator.backward(F.mse_loss(model(x), y))
            accelerator.unscale_gradients()
            accelerator.clip_grad_norm_(model.parameters(), 0.5)  # expect: ACC201
            optimizer.step()
            optimizer.zero_grad()


def split(model, optimizer, data, steps):
    accelerator = Accelerator(gradient_accumulation_steps=steps, split_batches=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    loader = DataLoader(data, batch_size=8, drop_last=True)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    whole = len(loader) // steps * steps
    for i, (x, y) in enumerate(loader):
        if i == whole:
            break
        with accelerator.accumulate(model):
            accelerator.backward(F.mse_loss(model(x), y))
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
