"""Right loops, written by hand, in the shapes that repairs produce: each equals the full batch when it is executed.

A line may end in `# @mark`; the mutations of `kinds.py` find their places by these marks, and the comments are
stripped from the source that is used. `features` says how the loop is run (see `tests/generated/execute.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ZEROS = (4, 1, 0, 2, 1)  # valid targets of an example: one microbatch in five has none

SCALE = """
def scale_grads(params, factor):
    for p in params:
        if p.grad is not None:
            p.grad.mul_(factor)
"""


@dataclass(frozen=True)
class Base:
    """A right loop. `count` is the right count in its text, `wrong_counts` what a repair could have put there."""

    name: str
    text: str
    features: dict[str, Any]
    entry: str = "train"
    count: str = ""
    wrong_counts: dict[str, str] = field(default_factory=dict)
    executable: bool = True


def features(loss: str, args: dict[str, str], **more: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "loss": loss,
        "data": "list",
        "batch": "tuple",
        "token_keys": {"x": "x", "y": "y", "m": "mask"},
        "ignore_value": -100,
        "clip": "norm",
        "sched": "none",
        "division": "deferred",
        "marks": {},
        "pattern": ZEROS,
        "call": {"fields": {}, "consts": {}, "method": "", "init": {}, "args": args},
    }
    values.update(more)
    return values


PLAIN = {
    "model": "model",
    "loader": "loader",
    "optimizer": "optimizer",
    "scheduler": "scheduler",
    "k": "k",
    "max_norm": "clip",
    "epochs": "epochs",
}

DEFERRED = Base(
    "deferred",
    """
import torch
import torch.nn.functional as F

"""
    + SCALE
    + """

def train(model, loader, optimizer, scheduler, k, max_norm, epochs):
    for _ in range(epochs):
        n = 0  # @init
        last = len(loader) - 1
        for i, (x, y) in enumerate(loader):
            logits = model(x)  # @top
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")  # @loss
            loss.backward()  # @backward
            n += int((y != -100).sum())  # @count
            if (i + 1) % k == 0 or i == last:  # @boundary
                scale_grads(model.parameters(), 1.0 / max(n, 1))  # @div
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # @clip
                optimizer.step()  # @step
                scheduler.step()  # @sched
                optimizer.zero_grad()  # @clear
                n = 0  # @reset
""",
    features("ce_ignore", PLAIN, sched="boundary"),
    count="int((y != -100).sum())",
    wrong_counts={
        "numel_with_padding": "y.numel()",
        "rows_for_targets": "y.size(0)",
        "wrong_ignore_index": "int((y != 0).sum())",
        "inverted_count": "int((y == -100).sum())",
    },
)

FLUSHED = Base(
    "deferred, flushed after the loop",
    """
import torch
import torch.nn.functional as F

"""
    + SCALE
    + """

def train(model, loader, optimizer, k, limit, epochs):
    for _ in range(epochs):
        optimizer.zero_grad()
        n = 0  # @init
        pending = 0
        for x, y, mask in loader:
            error = F.mse_loss(model(x).squeeze(-1), y, reduction="none")  # @top
            loss = (error * mask).sum()  # @loss
            loss.backward()  # @backward
            n += mask.sum().item()  # @count
            pending += 1
            if pending == k:  # @boundary
                scale_grads(model.parameters(), 1.0 / max(n, 1))  # @div
                torch.nn.utils.clip_grad_value_(model.parameters(), limit)  # @clip
                optimizer.step()  # @step
                optimizer.zero_grad()  # @clear
                n = 0  # @reset
                pending = 0
        if pending:  # @flush flushif
            scale_grads(model.parameters(), 1.0 / max(n, 1))  # @flush flushdiv
            torch.nn.utils.clip_grad_value_(model.parameters(), limit)  # @flush
            optimizer.step()  # @flush
            optimizer.zero_grad()  # @flush
""",
    features(
        "masked_mse",
        {"model": "model", "loader": "loader", "optimizer": "optimizer", "k": "k", "limit": "clip", "epochs": "epochs"},
        clip="value",
    ),
    count="mask.sum().item()",
    wrong_counts={
        "numel_with_padding": "mask.numel()",
        "rows_for_targets": "x.size(0)",
        "wrong_mask": "(y > 0).sum().item()",
    },
)

AMP = Base(
    "deferred with GradScaler",
    """
import torch
import torch.nn.functional as F

"""
    + SCALE
    + """

def train(model, loader, optimizer, scaler, k, max_norm):
    n = torch.tensor(0)  # @init
    last = len(loader) - 1
    for i, (x, y) in enumerate(loader):
        logits = model(x)  # @top
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")  # @loss
        scaler.scale(loss).backward()  # @backward
        n += (y != -100).sum()  # @count
        if (i + 1) % k == 0 or i == last:  # @boundary
            scaler.unscale_(optimizer)  # @unscale
            scale_grads(model.parameters(), 1.0 / n.clamp(min=1))  # @div
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # @clip
            scaler.step(optimizer)  # @step
            scaler.update()  # @update
            optimizer.zero_grad(set_to_none=True)  # @clear
            n = torch.tensor(0)  # @reset
""",
    features(
        "ce_ignore",
        {
            "model": "model",
            "loader": "loader",
            "optimizer": "optimizer",
            "scaler": "scaler",
            "k": "k",
            "max_norm": "clip",
        },
    ),
    count="(y != -100).sum()",
    wrong_counts={"numel_with_padding": "torch.tensor(y.numel())"},
)

CLASS = Base(
    "deferred in a class",
    """
import torch
from torch import nn

"""
    + SCALE
    + """

class Trainer:
    def __init__(self, model, optimizer, scheduler, k, max_norm):
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.k, self.max_norm = k, max_norm
        self.criterion = nn.CrossEntropyLoss(ignore_index=-100, reduction="sum")  # @criterion
        self.n = 0
        self.pending = 0

    def update(self):
        scale_grads(self.model.parameters(), 1.0 / max(self.n, 1))  # @div
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)  # @clip
        self.optimizer.step()  # @step
        self.scheduler.step()  # @sched
        self.optimizer.zero_grad()  # @clear
        self.n = 0  # @reset
        self.pending = 0

    def fit(self, loader):
        for batch in loader:
            logits = self.model(batch["input_ids"])  # @top
            loss = self.criterion(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())  # @loss
            loss.backward()  # @backward
            self.n += int((batch["labels"][:, 1:] != -100).sum())  # @count
            self.pending += 1
            if self.pending == self.k:
                self.update()
        if self.pending:  # @flush flushif
            self.update()  # @flush
""",
    features(
        "ce_shift",
        {},
        batch="dict",
        token_keys={"x": "input_ids", "y": "labels", "m": "attention_mask"},
        sched="boundary",
        call={
            "fields": {},
            "consts": {},
            "method": "fit",
            "args": {"loader": "loader"},
            "init": {
                "model": "model",
                "optimizer": "optimizer",
                "scheduler": "scheduler",
                "k": "k",
                "max_norm": "clip",
            },
        },
    ),
    entry="Trainer",
    count='int((batch["labels"][:, 1:] != -100).sum())',
    wrong_counts={
        "unshifted_labels": 'int((batch["labels"] != -100).sum())',
        "numel_with_padding": 'batch["labels"][:, 1:].numel()',
        "attention_mask": 'int(torch.ones_like(batch["input_ids"]).sum())',
    },
)

PRECOUNT = Base(
    "pre-count over islice",
    """
from itertools import islice

import torch
import torch.nn.functional as F


def train(model, loader, optimizer, scheduler, k, max_norm, epochs):
    for _ in range(epochs):
        it = iter(loader)
        while window := list(islice(it, k)):
            n = sum(int((y != -100).sum()) for x, y in window)  # @total
            for x, y in window:
                logits = model(x)  # @top
                loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")  # @loss
                (loss / max(n, 1)).backward()  # @backward
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # @clip
            optimizer.step()  # @step
            scheduler.step()  # @sched
            optimizer.zero_grad()  # @clear
""",
    features("ce_ignore", PLAIN, sched="boundary", division="precount"),
    count="int((y != -100).sum())",
    wrong_counts={"numel_with_padding": "y.numel()", "rows_for_targets": "len(x)"},
)

WEIGHTED = Base(
    "deferred micro steps, class weights",
    """
import torch
import torch.nn.functional as F

"""
    + SCALE
    + """

def train(model, batches, optimizer, scheduler, class_weights, updates, k, max_norm):
    for _ in range(updates):
        n = 0.0  # @init
        for _ in range(k):
            x, y = next(batches)  # @top
            loss = F.cross_entropy(model(x), y, weight=class_weights, reduction="sum")  # @loss
            loss.backward()  # @backward
            n += class_weights[y].sum().item()  # @count
        scale_grads(model.parameters(), 1.0 / n)  # @div
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # @clip
        optimizer.step()  # @step
        scheduler.step()  # @sched
        optimizer.zero_grad()  # @clear
""",
    features(
        "ce_weighted",
        {
            "model": "model",
            "batches": "stream",
            "optimizer": "optimizer",
            "scheduler": "scheduler",
            "class_weights": "class_weights",
            "updates": "updates",
            "k": "k",
            "max_norm": "clip",
        },
        data="stream",
        sched="boundary",
        class_scale=0.05,
    ),
    count="class_weights[y].sum().item()",
    wrong_counts={"plain_count_under_weights": "y.numel()", "weights_of_all_classes": "class_weights.sum().item()"},
)

SLICES = Base(
    "pre-count over slices",
    """
import torch
import torch.nn.functional as F


def train(model, inputs, targets, mask, optimizer, micro_size, updates, max_norm):
    k = len(inputs) // micro_size
    for _ in range(updates):
        optimizer.zero_grad()  # @clear
        n = int(mask.sum())  # @total
        for s in range(0, len(inputs), micro_size):
            x, y, m = inputs[s : s + micro_size], targets[s : s + micro_size], mask[s : s + micro_size]  # @top
            each = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="none").view(y.shape)
            loss = (each * m).sum()  # @loss
            (loss / max(n, 1)).backward()  # @backward
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # @clip
        optimizer.step()  # @step
""",
    features(
        "masked_ce",
        {
            "model": "model",
            "inputs": "x_all",
            "targets": "y_all",
            "mask": "m_all",
            "optimizer": "optimizer",
            "micro_size": "micro_size",
            "updates": "updates",
            "max_norm": "clip",
        },
        data="tensors",
        division="precount",
    ),
    count="int(mask.sum())",
    wrong_counts={
        "numel_with_padding": "mask.numel()",
        "rows_for_targets": "len(inputs)",
        "wrong_mask": "int((targets > 0).sum())",
    },
)

CTC = Base(
    "deferred CTC",
    """
import torch
import torch.nn.functional as F

"""
    + SCALE
    + """

def train(model, loader, optimizer, k, max_norm):
    n = 0  # @init
    last = len(loader) - 1
    for i, (x, y, lengths) in enumerate(loader):
        log_probs = model(x).log_softmax(-1).transpose(0, 1)  # @top
        steps = torch.full((x.size(0),), x.size(1))
        each = F.ctc_loss(log_probs, y, steps, lengths, reduction="none")
        loss = (each / lengths).sum()  # @loss
        loss.backward()  # @backward
        n += x.size(0)  # @count
        if (i + 1) % k == 0 or i == last:  # @boundary
            scale_grads(model.parameters(), 1.0 / n)  # @div
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # @clip
            optimizer.step()  # @step
            optimizer.zero_grad()  # @clear
            n = 0  # @reset
""",
    features("ctc", {"model": "model", "loader": "loader", "optimizer": "optimizer", "k": "k", "max_norm": "clip"}),
    count="x.size(0)",
    wrong_counts={"lengths_for_rows": "int(lengths.sum())"},
)

BATCH_SIZE = Base(
    "deferred, only batch sizes differ",
    """
import torch
from torch import nn

"""
    + SCALE
    + """

def train(model, loader, optimizer, k, epochs):
    criterion = nn.MSELoss(reduction="sum")  # @criterion
    for _ in range(epochs):
        n = 0  # @init
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x).squeeze(-1), y)  # @loss top
            loss.backward()  # @backward
            n += y.size(0)  # @count
            if (i + 1) % k == 0 or i + 1 == len(loader):  # @boundary
                scale_grads(model.parameters(), 1.0 / n)  # @div
                optimizer.step()  # @step
                optimizer.zero_grad()  # @clear
                n = 0  # @reset
""",
    features(
        "mse",
        {"model": "model", "loader": "loader", "optimizer": "optimizer", "k": "k", "epochs": "epochs"},
        clip="none",
    ),
    count="y.size(0)",
    wrong_counts={"batches_for_rows": "1"},
)

DDP = Base(
    "pre-count under DDP",
    """
from contextlib import nullcontext
from itertools import islice

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


def train(net, loader, optimizer, k, max_norm):
    model = DistributedDataParallel(net)
    world = dist.get_world_size()
    it = iter(loader)
    while window := list(islice(it, k)):
        n = torch.stack([(y != -100).sum() for _, y in window]).sum()  # @total
        dist.all_reduce(n)  # @allreduce
        for j, (x, y) in enumerate(window):
            with nullcontext() if j == len(window) - 1 else model.no_sync():  # @sync
                logits = model(x)  # @top
                loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")  # @loss
                (loss * world / n.clamp(min=1)).backward()  # @backward
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # @clip
        optimizer.step()  # @step
        optimizer.zero_grad()  # @clear
""",
    features(
        "ce_ignore",
        {"net": "model", "loader": "loader", "optimizer": "optimizer", "k": "k", "max_norm": "clip"},
        division="precount",
        ranks=2,
    ),
    count="(y != -100).sum()",
    wrong_counts={"numel_with_padding": "torch.tensor(y.numel())"},
)

DDP_DEFERRED = Base(
    "deferred under DDP",
    """
import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

"""
    + SCALE
    + """

def train(net, loader, optimizer, k, max_norm):
    model = DistributedDataParallel(net)
    n = torch.zeros((), dtype=torch.long)  # @init
    last = len(loader) - 1
    for i, (x, y) in enumerate(loader):
        with model.no_sync() if (i + 1) % k and i != last else contextlib.nullcontext():  # @sync
            logits = model(x)  # @top
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")  # @loss
            loss.backward()  # @backward
        n += (y != -100).sum()  # @count
        if (i + 1) % k == 0 or i == last:  # @boundary
            dist.all_reduce(n)  # @allreduce
            scale_grads(model.parameters(), dist.get_world_size() / n.clamp(min=1))  # @div
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # @clip
            optimizer.step()  # @step
            optimizer.zero_grad()  # @clear
            n.zero_()  # @reset
""",
    features(
        "ce_ignore",
        {"net": "model", "loader": "loader", "optimizer": "optimizer", "k": "k", "max_norm": "clip"},
        ranks=2,
    ),
    count="(y != -100).sum()",
    wrong_counts={},
)

ACCELERATE = Base(
    "deferred under Accelerate",
    """
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader

"""
    + SCALE
    + """

def train(net, dataset, batch_size, optimizer, k, max_norm, epochs):
    accelerator = Accelerator(gradient_accumulation_steps=k)
    loader = DataLoader(dataset, batch_size=batch_size)
    model, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    ranks = accelerator.num_processes * accelerator.gradient_accumulation_steps  # @ranks
    n = 0  # @init
    for _ in range(epochs):
        for x, y in loader:
            with accelerator.accumulate(model):
                logits = model(x)  # @top
                loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")  # @loss
                accelerator.backward(loss)  # @backward
                n += int((y != -100).sum())  # @count
                if accelerator.sync_gradients:  # @boundary
                    n = accelerator.reduce(torch.tensor(n, device=accelerator.device)).item()  # @allreduce
                    scale_grads(model.parameters(), ranks / max(n, 1))  # @div
                    accelerator.clip_grad_norm_(model.parameters(), max_norm)  # @clip
                    n = 0  # @reset
                optimizer.step()  # @step
                optimizer.zero_grad()  # @clear
""",
    features(
        "ce_ignore",
        {
            "net": "model",
            "dataset": "dataset",
            "batch_size": "batch_size",
            "optimizer": "optimizer",
            "k": "k",
            "max_norm": "clip",
            "epochs": "epochs",
        },
        data="keep",
        ranks=2,
        needs="accelerate",
    ),
    count="int((y != -100).sum())",
    wrong_counts={"numel_with_padding": "y.numel()", "rows_for_targets": "y.size(0)"},
)

METHODS = Base(
    "deferred over methods",
    """
import torch
import torch.nn.functional as F

"""
    + SCALE
    + """

class Trainer:
    def __init__(self, model, optimizer, scheduler, k, max_norm):
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.k, self.max_norm = k, max_norm
        self.n = 0

    def micro(self, batch):
        logits = self.model(batch["input_ids"])[:, :-1]  # @top
        labels = batch["labels"][:, 1:].flatten()
        loss = F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=-100, reduction="sum")  # @loss
        loss.backward()  # @backward
        self.n += int((batch["labels"][:, 1:] != -100).sum())  # @count

    def update(self):
        scale_grads(self.model.parameters(), 1.0 / max(self.n, 1))  # @div
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)  # @clip
        self.optimizer.step()  # @step
        self.scheduler.step()  # @sched
        self.optimizer.zero_grad()  # @clear
        self.n = 0  # @reset

    def fit(self, loader):
        for i, batch in enumerate(loader):
            self.micro(batch)
            if (i + 1) % self.k == 0 or i + 1 == len(loader):  # @boundary
                self.update()
""",
    CLASS.features,
    entry="Trainer",
    count='int((batch["labels"][:, 1:] != -100).sum())',
    wrong_counts={
        "unshifted_labels": 'int((batch["labels"] != -100).sum())',
        "numel_with_padding": 'batch["labels"][:, 1:].numel()',
    },
)

TERMS = Base(
    "deferred, two terms over one count",
    """
import torch
import torch.nn.functional as F

"""
    + SCALE
    + """

def train(model, loader, optimizer, scheduler, k, max_norm, epochs):
    for _ in range(epochs):
        n = 0  # @init
        last = len(loader) - 1
        for i, (x, y) in enumerate(loader):
            logits, labels = model(x).flatten(0, 1), y.flatten()  # @top
            m = int((y != -100).sum())
            loss = (0.25 * F.cross_entropy(logits, labels) + 0.75 * F.cross_entropy(logits, labels)) * m  # @loss
            loss.backward()  # @backward
            n += int((y != -100).sum())  # @count
            if (i + 1) % k == 0 or i == last:  # @boundary
                scale_grads(model.parameters(), 1.0 / max(n, 1))  # @div
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # @clip
                optimizer.step()  # @step
                scheduler.step()  # @sched
                optimizer.zero_grad()  # @clear
                n = 0  # @reset
""",
    features("ce_ignore", PLAIN, sched="boundary"),
    count="int((y != -100).sum())",
    wrong_counts={"numel_with_padding": "y.numel()", "rows_for_targets": "y.size(0)"},
)

BASES = (
    DEFERRED, FLUSHED, AMP, CLASS, METHODS, TERMS, PRECOUNT, WEIGHTED, SLICES, CTC, BATCH_SIZE, DDP, DDP_DEFERRED,
    ACCELERATE,
)  # fmt: skip
