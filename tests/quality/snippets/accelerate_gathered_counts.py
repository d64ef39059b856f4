# mechanism: a count that Accelerate gathers is the ranks': it wants the number of processes, and the divisor taken back
import contextlib
import torch.nn.functional as F
from accelerate import Accelerator


def right(model, optimizer, loader, steps):
    accelerator = Accelerator(gradient_accumulation_steps=steps)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches = iter(loader)
    for _ in range(len(loader) // steps):
        window = [next(batches) for _ in range(steps)]
        count = sum((y != -100).sum() for _, y in window)
        count = accelerator.gather(count).sum().item()
        for i, (x, y) in enumerate(window):
            context = accelerator.no_sync(model) if i < len(window) - 1 else contextlib.nullcontext()
            with context:
                loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum") / count
                loss = loss * accelerator.gradient_accumulation_steps * accelerator.num_processes
                accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()


def without_processes(model, optimizer, loader, steps):
    accelerator = Accelerator(gradient_accumulation_steps=steps)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches = iter(loader)
    for _ in range(len(loader) // steps):
        window = [next(batches) for _ in range(steps)]
        count = sum((y != -100).sum() for _, y in window)
        count = accelerator.reduce(count, reduction="sum")
        for i, (x, y) in enumerate(window):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum") / count
            loss = loss * accelerator.gradient_accumulation_steps
            accelerator.backward(loss)  # expect: ACC106
        optimizer.step()
        optimizer.zero_grad()


def local(model, optimizer, loader, steps):
    accelerator = Accelerator(gradient_accumulation_steps=steps)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches = iter(loader)
    for _ in range(len(loader) // steps):
        window = [next(batches) for _ in range(steps)]
        count = sum((y != -100).sum() for _, y in window)
        for i, (x, y) in enumerate(window):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum") / count
            loss = loss * accelerator.gradient_accumulation_steps
            accelerator.backward(loss)  # one process, for all that is known: nothing is wrapped by the code itself
        optimizer.step()
        optimizer.zero_grad()


def divided_and_counted(model, optimizer, loader, steps):
    accelerator = Accelerator(gradient_accumulation_steps=steps)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
            accelerator.backward(loss / steps)  # expect: ACC104
            optimizer.step()
            optimizer.zero_grad()
