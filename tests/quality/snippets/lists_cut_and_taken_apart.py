# mechanism: lists that are cut into windows or taken apart: the last window divides by its own length
import torch
import torch.nn.functional as F
from collections import deque


def minibatches(model, samples, opt, batch_size):
    for i in range(0, len(samples), batch_size):
        rows = samples[i : i + batch_size]
        loss = 0
        for x, y in rows:
            loss = loss + F.mse_loss(model(x), y)
        opt.zero_grad()
        (loss / len(rows)).backward()
        opt.step()


def each_example(model, loader, opt):
    for x, y in loader:
        opt.zero_grad()
        for i in range(len(x)):
            (F.mse_loss(model(x[i]), y[i]) / len(x)).backward()
        opt.step()


def shuffled_rows(model, x, y, opt, size):
    order = torch.randperm(len(x))
    for start in range(0, len(order), size):
        idx = order[start : start + size]
        opt.zero_grad()
        F.mse_loss(model(x[idx]), y[idx]).backward()
        opt.step()


def last_window_right(model, parts, opt, steps):
    for head in range(0, len(parts), steps):
        group = parts[head : head + steps]
        opt.zero_grad()
        for x, y in group:
            (F.mse_loss(model(x), y) / len(group)).backward()  # expect: ACC102
        opt.step()


def popped_right(net, opt, parts, steps):
    queue = deque(parts)
    while queue:
        size = min(steps, len(queue))
        opt.zero_grad()
        for _ in range(size):
            x = queue.popleft()
            (F.mse_loss(net(x), x) / size).backward()
        opt.step()


def searched(net, opt, stack):
    todo = list(stack)
    while todo:
        node = todo.pop()
        todo.extend(node.children)
        opt.zero_grad()
        F.mse_loss(net(node.value), node.value).backward()
        opt.step()


def listed_right(model, x, y, opt, steps, size):
    parts = [(x[j * size : (j + 1) * size], y[j * size : (j + 1) * size]) for j in range(len(x) // size)]
    for head in range(0, len(parts), steps):
        opt.zero_grad()
        group = parts[head : head + steps]
        for xs, ys in group:
            (F.l1_loss(model(xs), ys) / len(group)).backward()
        opt.step()


def replayed(agent, memory, opt, size, updates):
    buffer = [memory.sample() for _ in range(updates)]
    for start in range(0, len(buffer), size):
        for state, target in buffer[start : start + size]:
            opt.zero_grad()
            F.mse_loss(agent(state), target).backward()
            opt.step()
