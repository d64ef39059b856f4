# mechanism: runners with their boundary in a method, windows in nested loops and helpers, a stream without end
import argparse
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset


@dataclass
class Config:
    accum: int = 8
    clip: float = 1.0
    lr: float = 1e-4


class Runner:
    cfg: Config

    def __init__(self, cfg, net, data):
        self.cfg = cfg
        self.net = net
        self.loader = DataLoader(data, batch_size=16, shuffle=True)
        self.opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr)
        self.scaler = torch.amp.GradScaler(enabled=True)
        self.micro = 0

    def loss(self, batch):
        logits = self.net(batch["input_ids"])
        return F.cross_entropy(logits.view(-1, logits.size(-1)), batch["labels"].view(-1), ignore_index=-100)

    def is_boundary(self):
        return self.micro % self.cfg.accum == 0

    def after_backward(self):
        self.micro += 1
        if not self.is_boundary():
            return
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.net.parameters(), self.cfg.clip)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad(set_to_none=True)

    def epoch(self):
        for batch in self.loader:
            with torch.autocast("cuda"):
                loss = self.loss(batch) / self.cfg.accum
            self.scaler.scale(loss).backward()  # expect: ACC101
            self.after_backward()


class Counting(Runner):
    def epoch(self):
        batches = iter(self.loader)
        for _ in range(len(self.loader) // self.cfg.accum):
            window = [next(batches) for _ in range(self.cfg.accum)]
            total = sum(int((b["labels"] != -100).sum()) for b in window)
            for b in window:
                logits = self.net(b["input_ids"])
                loss = F.cross_entropy(logits.flatten(0, 1), b["labels"].flatten(), reduction="sum") / total
                self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()
            self.opt.zero_grad()


def main_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accum", type=int, default=4)
    args = parser.parse_args()
    net = nn.Linear(4, 4)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.randn(100, 4), torch.randn(100, 4))
    loader = DataLoader(data, batch_size=8)
    for step, (x, y) in enumerate(loader, start=1):
        loss = F.mse_loss(net(x), y)
        (loss / args.accum).backward()  # expect: ACC102, ACC107
        if step % args.accum == 0 or step == len(loader):
            opt.step()
            opt.zero_grad()


def ddp_right(net, loader, steps):
    rank = int(os.environ["LOCAL_RANK"])
    model = nn.parallel.DistributedDataParallel(net, device_ids=[rank])
    opt = torch.optim.AdamW(model.parameters())
    it = iter(loader)
    for _ in range(1000):
        window = [next(it) for _ in range(steps)]
        n = torch.tensor(sum((y != -100).sum().item() for _, y in window))
        dist.all_reduce(n)
        for i, (x, y) in enumerate(window):
            model.require_backward_grad_sync = i == steps - 1
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
            (loss * dist.get_world_size() / n).backward()
        opt.step()
        opt.zero_grad()


def while_micro(net, batches, opt, accum, limit):
    it = 0
    while it < limit:
        micro = 0
        while micro < accum:
            x, y = next(batches)
            loss = F.cross_entropy(net(x), y, ignore_index=0)
            (loss / accum).backward()  # expect: ACC101
            micro += 1
        opt.step()
        opt.zero_grad()
        it += 1


def deferred_right(net, loader, opt, accum):
    tokens = 0
    for i, (x, y) in enumerate(loader):
        F.cross_entropy(net(x).flatten(0, 1), y.flatten(), ignore_index=0, reduction="sum").backward()
        tokens += (y != 0).sum()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            for p in net.parameters():
                if p.grad is not None:
                    p.grad.div_(tokens.clamp(min=1))
            opt.step()
            opt.zero_grad()
            tokens = 0


def deferred_not_reset(net, loader, opt, accum):
    tokens = 0
    for i, (x, y) in enumerate(loader):
        F.cross_entropy(net(x).flatten(0, 1), y.flatten(), ignore_index=0, reduction="sum").backward()
        tokens += (y != 0).sum()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            for p in net.parameters():
                p.grad.div_(tokens)
            opt.step()
            opt.zero_grad()


def nested_helper(net, loader, opt, accum):
    def finish():
        opt.step()
        opt.zero_grad()

    def micro(x, y):
        loss = F.cross_entropy(net(x), y, ignore_index=255)
        loss = loss / accum
        loss.backward()  # expect: ACC101
        return loss.item()

    for i, (x, y) in enumerate(loader):
        micro(x, y)
        if (i + 1) % accum == 0:  # expect: ACC304
            finish()


def apex(net, loader, opt, accum):
    from apex import amp

    net, opt = amp.initialize(net, opt)
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(net(x), y, ignore_index=255) / accum
        with amp.scale_loss(loss, opt) as scaled:
            scaled.backward()  # expect: ACC101
        if (i + 1) % accum == 0:  # expect: ACC304
            nn.utils.clip_grad_norm_(amp.master_params(opt), 1.0)
            opt.step()
            opt.zero_grad()


class Stream(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.randn(4), torch.randn(4)


def stream_right(net, opt, accum):
    loader = DataLoader(Stream(), batch_size=4)
    for i, (x, y) in enumerate(loader):
        (F.mse_loss(net(x), y) / accum).backward()
        if (i + 1) % accum == 0:
            opt.step()
            opt.zero_grad()
