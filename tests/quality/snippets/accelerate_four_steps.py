# mechanism: Accelerate with K written in the code: the loader is long enough for its partial window
from accelerate import Accelerator
from torch.utils.data import DataLoader
import torch.nn.functional as F


def main(model, opt, sched, data):
    acc = Accelerator(gradient_accumulation_steps=4)
    dl = DataLoader(data, batch_size=8, drop_last=True)
    model, opt, dl, sched = acc.prepare(model, opt, dl, sched)
    for x, y in dl:
        with acc.accumulate(model):
            loss = F.mse_loss(model(x), y)
            acc.backward(loss)  # expect: ACC107
            acc.clip_grad_norm_(model.parameters(), 1.0)  # expect: ACC201
            opt.step()
            sched.step()
            opt.zero_grad()
