# mechanism: the engine knows its boundary; a token mean in it weighs microbatches equally
import deepspeed
import torch.nn.functional as F
from torch.utils.data import DataLoader


def own_boundary_right(model, data, steps):
    loader = DataLoader(data, batch_size=16, drop_last=True)
    engine, _, _, _ = deepspeed.initialize(model=model, config={"gradient_accumulation_steps": 4})
    for i, (x, y) in enumerate(loader):
        engine.set_gradient_accumulation_boundary(is_boundary=(i + 1) % 4 == 0)
        engine.backward(F.mse_loss(engine(x), y))
        engine.step()


def plain(model, data):
    loader = DataLoader(data, batch_size=16, drop_last=True)
    engine, optimizer, loader, scheduler = deepspeed.initialize(model=model, training_data=data, config="c.json")
    for x, y in loader:
        loss = F.mse_loss(engine(x), y)
        engine.backward(loss)
        engine.step()
        scheduler.step()


def tokens(model, loader):
    engine, *_ = deepspeed.initialize(model=model, config={"gradient_accumulation_steps": 4})
    for batch in loader:
        loss = F.cross_entropy(engine(batch["x"]).flatten(0, 1), batch["y"].flatten(), ignore_index=-100)
        engine.backward(loss)  # expect: ACC101
        engine.step()
