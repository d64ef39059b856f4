# mechanism: the mean of a weighted error divides by the sum of the weights present


def weighted_mse(pred, target, weight):
    return (weight * (pred - target) ** 2).sum() / weight.sum()


def step(model, optimizer, micro_batches):
    optimizer.zero_grad()
    k = len(micro_batches)
    for x, y, w in micro_batches:
        loss = weighted_mse(model(x), y, w) / k
        loss.backward()  # expect: ACC101
    optimizer.step()
