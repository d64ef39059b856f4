# mechanism: a prepared loader's end closes the window, unless the plugin says otherwise
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin
from project import make_scheduler
from torch.utils.data import DataLoader


def train_carried(model, optimizer, data, epochs):
    plugin = GradientAccumulationPlugin(num_steps=4, sync_with_dataloader=False)
    accelerator = Accelerator(gradient_accumulation_plugin=plugin)
    loader = DataLoader(data, batch_size=8, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(epochs):
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                accelerator.backward(F.mse_loss(model(inputs), targets))
                optimizer.step()
                optimizer.zero_grad()


def train_closed(model, optimizer, data, epochs):
    accelerator = Accelerator(gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=4))
    loader = DataLoader(data, batch_size=8, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(epochs):
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                accelerator.backward(F.mse_loss(model(inputs), targets))  # expect: ACC107
                optimizer.step()
                optimizer.zero_grad()


def train_unprepared_optimizer(model, optimizer, data):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    loader = DataLoader(data, batch_size=8, drop_last=True)
    model, loader = accelerator.prepare(model, loader)
    scheduler = make_scheduler(optimizer)
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            accelerator.backward(F.mse_loss(model(inputs), targets))
            optimizer.step()  # expect: ACC301
            if accelerator.sync_gradients:
                scheduler.step()
                optimizer.zero_grad()
