# mechanism: an engine whose number of steps stands in a configuration file still divides by it
import json
import deepspeed
import torch.nn.functional as F
from project import make_scheduler
from torch.utils.data import DataLoader


def unknown_steps_equal(args, model, data):
    loader = DataLoader(data, batch_size=16, drop_last=True)
    engine, _, _, _ = deepspeed.initialize(args=args, model=model, config="ds_config.json")
    for inputs, targets in loader:
        loss = F.mse_loss(engine(inputs), targets)
        engine.backward(loss)
        engine.step()


def unknown_steps_ignored(args, model, data):
    with open(args.config) as stream:
        config = json.load(stream)
    loader = DataLoader(data, batch_size=16, drop_last=True)
    engine, _, _, _ = deepspeed.initialize(args=args, model=model, config=config)
    for inputs, targets in loader:
        loss = F.cross_entropy(engine(inputs).flatten(0, 1), targets.flatten(), ignore_index=-100)
        engine.backward(loss)  # expect: ACC101
        engine.step()


def hand_and_config(args, model, data):
    with open(args.config) as stream:
        config = json.load(stream)
    loader = DataLoader(data, batch_size=16, drop_last=True)
    engine, _, _, _ = deepspeed.initialize(args=args, model=model, config=config)
    for inputs, targets in loader:
        loss = F.mse_loss(engine(inputs), targets)
        engine.backward(loss / engine.gradient_accumulation_steps())  # expect: ACC104
        engine.step()


def config_by_key(args, model, data):
    with open(args.config) as stream:
        config = json.load(stream)
    loader = DataLoader(data, batch_size=16, drop_last=True)
    engine, _, _, _ = deepspeed.initialize(args=args, model=model, config=config)
    for inputs, targets in loader:
        loss = F.mse_loss(engine(inputs), targets) / config["gradient_accumulation_steps"]  # expect: ACC104
        engine.backward(loss)
        engine.step()


def step_at_boundary_right(args, model, data):
    loader = DataLoader(data, batch_size=16, drop_last=True)
    engine, _, _, _ = deepspeed.initialize(args=args, model=model, config={"gradient_accumulation_steps": 4})
    scheduler = make_scheduler(engine)
    for inputs, targets in loader:
        loss = F.mse_loss(engine(inputs), targets)
        engine.backward(loss)
        if engine.is_gradient_accumulation_boundary():
            scheduler.step()
        engine.step()


def step_at_hand_boundary(args, model, data):
    loader = DataLoader(data, batch_size=16, drop_last=True)
    engine, _, _, _ = deepspeed.initialize(args=args, model=model, config={"gradient_accumulation_steps": 4})
    for i, (inputs, targets) in enumerate(loader):
        loss = F.mse_loss(engine(inputs), targets)
        engine.backward(loss)
        if (i + 1) % 4 == 0:  # expect: ACC304
            engine.step()
