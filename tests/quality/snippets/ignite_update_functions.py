# mechanism: ignite calls an update function once a microbatch, which is a closure of the function that sets it up
import torch.nn.functional as F
from ignite.engine import Engine


def make_trainer(model, optimizer, steps):
    def update(engine, batch):
        inputs, labels = batch
        loss = F.cross_entropy(model(inputs), labels, ignore_index=-1) / steps
        loss.backward()  # expect: ACC101
        if engine.state.iteration % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return Engine(update)


def make_stepping(model, optimizer, steps):
    def update(engine, batch):
        inputs, labels = batch
        loss = F.mse_loss(model(inputs), labels) / steps
        loss.backward()
        optimizer.step()  # expect: ACC301
        if engine.state.iteration % steps == 0:
            optimizer.zero_grad()
        return loss.item()

    return Engine(update)


def make_right(model, optimizer):
    def update(engine, batch):
        optimizer.zero_grad()
        inputs, labels = batch
        loss = F.cross_entropy(model(inputs), labels, ignore_index=-1)
        loss.backward()
        optimizer.step()
        return loss.item()

    return Engine(update)


def make_whole_windows(model, optimizer):
    def update(engine, window):
        count = sum((labels != -1).sum() for _, labels in window)
        for inputs, labels in window:
            loss = F.cross_entropy(model(inputs), labels, ignore_index=-1, reduction="sum") / count
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return Engine(update)
