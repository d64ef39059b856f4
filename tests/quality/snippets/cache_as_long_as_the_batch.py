# mechanism: a cache that is cut to the length of the batch is no data: the targets and their count are one microbatch
import torch
import torch.distributed as dist
from recipe import build, exit_losses
from torchtune import training


class Recipe:
    def __init__(self, cfg):
        self.accum = cfg.gradient_accumulation_steps
        self.model = training.shard_model(build(cfg.model))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.loss_fn = build(cfg.loss)
        self.ends = torch.full((cfg.batch_size, 1), self.loss_fn.ignore_index)
        self.loader = torch.utils.data.DataLoader(build(cfg.data), cfg.batch_size, drop_last=True)

    def loss_of(self, batch):
        labels = torch.hstack((batch["labels"][..., 1:], self.ends[: batch["labels"].shape[0]]))
        return exit_losses(self.model, self.model(batch["tokens"]), labels, self.loss_fn)

    def train(self):
        tokens = 0
        for index, batch in enumerate(self.loader):
            current = (batch["labels"] != self.loss_fn.ignore_index).sum()
            tokens += current
            (self.loss_of(batch) * current).backward()  # expect: ACC106
            if (index + 1) % self.accum == 0:  # expect: ACC304
                dist.all_reduce(tokens)
                training.scale_grads(self.model, 1 / tokens)
                self.optimizer.step()
                self.optimizer.zero_grad()
                tokens = 0

    def train_right(self):
        tokens = 0
        steps = len(self.loader) // self.accum * self.accum
        for index, batch in enumerate(self.loader):
            if index == steps:
                break
            current = (batch["labels"] != self.loss_fn.ignore_index).sum()
            tokens += current
            (self.loss_of(batch) * current).backward()
            if (index + 1) % self.accum == 0:
                dist.all_reduce(tokens)
                training.scale_grads(self.model, dist.get_world_size() / tokens)
                self.optimizer.step()
                self.optimizer.zero_grad()
                tokens = 0
