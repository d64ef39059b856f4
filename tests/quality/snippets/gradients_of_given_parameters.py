# mechanism: what has a gradient in a loop over something unknown is a parameter, and dividing it divides the sum
import torch
import torch.nn.functional as F


def right(net, batches, optimizer, steps, parameters):
    while True:
        optimizer.zero_grad()
        for _ in range(steps):
            x, y = next(batches)
            F.mse_loss(net(x), y).backward()
        for p in parameters:
            p.grad /= steps
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()


def right_in_place(net, batches, optimizer, steps, parameters):
    while True:
        optimizer.zero_grad()
        for _ in range(steps):
            x, y = next(batches)
            F.mse_loss(net(x), y).backward()
        for p in parameters:
            if p.grad is not None:
                p.grad.data.div_(steps)
        optimizer.step()


def equal_means(net, batches, optimizer, steps, parameters):
    while True:
        optimizer.zero_grad()
        for _ in range(steps):
            x, y = next(batches)
            F.cross_entropy(net(x), y, ignore_index=-100).backward()  # expect: ACC101
        for p in parameters:
            p.grad /= steps
        optimizer.step()


def undivided(net, batches, optimizer, steps, parameters):
    while True:
        optimizer.zero_grad()
        for _ in range(steps):
            x, y = next(batches)
            F.cross_entropy(net(x), y, ignore_index=-100).backward()  # expect: ACC103
        for p in parameters:
            p.grad.nan_to_num_()
        optimizer.step()


def adversarial(net, images, optimizer):
    for x in images:
        x.requires_grad_()
        F.mse_loss(net(x), x).backward()
        x.data += 0.01 * x.grad.sign()
        optimizer.step()
        optimizer.zero_grad()
