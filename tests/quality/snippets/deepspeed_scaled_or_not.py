# mechanism: a DeepSpeed engine divides by its own number of steps, unless backward is told not to
import deepspeed
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(model, data):
    loader = DataLoader(data, batch_size=16, drop_last=True)
    engine, _, _, _ = deepspeed.initialize(model=model, config={"gradient_accumulation_steps": 4})
    for inputs, targets in loader:
        loss = F.mse_loss(engine(inputs), targets)
        engine.backward(loss / 4)  # expect: ACC104
        engine.step()


def train_right(model, data):
    loader = DataLoader(data, batch_size=16, drop_last=True)
    engine, _, _, _ = deepspeed.initialize(model=model, config={"gradient_accumulation_steps": 4})
    for inputs, targets in loader:
        loss = F.mse_loss(engine(inputs), targets)
        engine.backward(loss / 4, scale_wrt_gas=False)
        engine.step()
