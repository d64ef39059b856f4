# mechanism: a loss's own weight, or the mean of two losses, is no division by the steps where there are two steps
import torch.nn.functional as F
from accelerate import Accelerator


def mean_of_two(net, optimizer, batches):
    accelerator = Accelerator(gradient_accumulation_steps=2)
    net, optimizer, batches = accelerator.prepare(net, optimizer, batches)
    for _ in range(1000):
        with accelerator.accumulate(net):
            x, y = next(batches)
            there, back = net(x)
            loss = (F.mse_loss(there, y) + F.l1_loss(back, x)) / 2
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()


def half_of_squares(net, optimizer, batches):
    for _ in range(1000):
        optimizer.zero_grad()
        for _ in range(2):
            x, y = next(batches)
            loss = 0.5 * F.mse_loss(net(x), y)
            (loss / 2).backward()
        optimizer.step()


def halves(net, optimizer, batches):
    for _ in range(1000):
        optimizer.zero_grad()
        for _ in range(2):
            x, y = next(batches)
            out = net(x)
            loss = 0.5 * F.mse_loss(out, y) + 0.5 * F.l1_loss(out, y)
            (loss / 2).backward()
        optimizer.step()


def divided_twice(net, optimizer, batches):
    for _ in range(1000):
        optimizer.zero_grad()
        for _ in range(2):
            x, y = next(batches)
            loss = 0.5 * F.mse_loss(net(x), y) / 2
            (loss / 2).backward()  # expect: ACC104
        optimizer.step()
