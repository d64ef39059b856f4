# mechanism: a branch that is only guessed to be taken does not settle a switch: both backwards are reached
from dataclasses import dataclass

import torch
from recipe import wrap
from torch.nn import functional as F


@dataclass
class Arguments:
    accum: int = 1
    fp16: bool = True
    adapters: bool = False


class Trainer:
    def __init__(self, model, use_cuda=True):
        self.args = Arguments()
        self.model = model
        if self.args.adapters:
            self.args.fp16 = False
            self.adapter = wrap(model)
        self.device = "cuda" if use_cuda else "cpu"

    def train(self, loader):
        args = self.args
        optimizer = torch.optim.AdamW(self.model.parameters())
        scaler = torch.amp.GradScaler()
        for step, (inputs, labels) in enumerate(loader):
            loss = F.cross_entropy(self.model(inputs), labels, ignore_index=-1) / args.accum
            if args.fp16:
                scaler.scale(loss).backward()  # expect: ACC101
            else:
                loss.backward()  # expect: ACC101
            if (step + 1) % args.accum == 0:  # expect: ACC304
                if args.fp16:
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
                optimizer.zero_grad()

    def train_right(self, windows):
        args = self.args
        optimizer = torch.optim.AdamW(self.model.parameters())
        scaler = torch.amp.GradScaler()
        for window in windows:
            count = sum((labels != -1).sum() for _, labels in window)
            for inputs, labels in window:
                loss = F.cross_entropy(self.model(inputs), labels, ignore_index=-1, reduction="sum") / count
                if args.fp16:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
            if args.fp16:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            optimizer.zero_grad()
