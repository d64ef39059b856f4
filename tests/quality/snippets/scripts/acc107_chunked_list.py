# mechanism: a list of equal microbatches is cut into groups; the last group is shorter than the divisor
import torch


def optimise(model, x, y, lr, steps, size):
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    count = len(x) // size
    parts = [(x[j * size : (j + 1) * size], y[j * size : (j + 1) * size]) for j in range(count)]
    for head in range(0, len(parts), steps):
        opt.zero_grad()
        for xs, ys in parts[head : head + steps]:
            loss = torch.nn.functional.l1_loss(model(xs), ys)
            loss = loss / steps
            loss.backward()  # expect: ACC107
        opt.step()
