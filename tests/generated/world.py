"""The tiny world that a program runs in: a nonlinear fp64 model, data with known counts, independent reference losses.

Nothing here uses `torch.nn.functional` losses: each loss sum is written out by hand, so that the reference does not
share code with the programs that it judges. Every example is found again by the bytes of its input, whatever the
program does to order, slices or containers.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

import torch

VOCAB = 5
LENGTH = 4
TOKEN_FAMILIES = ("ce_ignore", "ce_filled", "ce_smooth", "masked_ce", "ce_stream", "ce_shift", "ctc")
MASKED_FAMILIES = ("ce_filled", "masked_mse", "masked_ce")
PATTERN = (4, 1, 3, 2, 1)  # valid targets of an example, in pairs: microbatches of two differ


class Net(torch.nn.Module):
    """Embedding or linear, tanh, linear: 40 to 60 parameters. Tells the recorder what it was called with."""

    def __init__(self, family: str, recorder: Any = None) -> None:
        super().__init__()
        outputs = 1 if family in ("mse", "l1", "bce", "masked_mse") else VOCAB if family in TOKEN_FAMILIES else 3
        self.first: torch.nn.Module
        self.first = torch.nn.Embedding(VOCAB, 4) if family in TOKEN_FAMILIES else torch.nn.Linear(3, 4)
        self.last = torch.nn.Linear(4, outputs)
        self.recorder = recorder
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.recorder is not None:
            self.recorder.forward(x)
        return self.last(torch.tanh(self.first(x)))


@dataclass
class Data:
    """All examples of a program, and how to find one again from a model input."""

    family: str
    x: torch.Tensor
    y: torch.Tensor
    m: torch.Tensor | None = None
    corpus: torch.Tensor | None = None
    weights: torch.Tensor = field(default_factory=lambda: torch.tensor([0.4, 1.7, 3.1], dtype=torch.float64))
    ignore: int = -100
    where: dict[bytes, int] = field(default_factory=dict)

    def index(self, x: torch.Tensor) -> list[int]:
        return [self.where[row.contiguous().numpy().tobytes()] for row in x.detach()]

    def __len__(self) -> int:
        return len(self.x)

    def item(self, i: int) -> tuple[torch.Tensor, ...]:
        return (self.x[i], self.y[i]) if self.m is None else (self.x[i], self.y[i], self.m[i])


class Examples(torch.utils.data.Dataset):  # type: ignore[misc]
    def __init__(self, data: Data, names: dict[str, str] | None) -> None:
        self.data, self.names = data, names

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> Any:
        item = self.data.item(i)
        return item if self.names is None else dict(zip((self.names[k] for k in "xym"), item, strict=False))


def row_targets(family: str, size: int, g: torch.Generator) -> torch.Tensor:
    """One target (or target distribution) an example."""
    if family == "mse":
        return torch.randn(size, generator=g, dtype=torch.float64)
    if family == "l1":
        return 2 * torch.randn(size, generator=g, dtype=torch.float64)
    if family == "bce":
        return torch.randint(0, 2, (size,), generator=g).double()
    if family == "kl":
        return torch.softmax(torch.randn(size, 3, generator=g, dtype=torch.float64), -1)
    if family == "ce_weighted":
        return torch.tensor([(0, 2, 1, 1, 0)[i // 2 % 5] for i in range(size)])
    return torch.randint(0, 3, (size,), generator=g)


def make_data(
    family: str, size: int, seed: int, ignore: int = -100, pattern: tuple[int, ...] = PATTERN, class_scale: float = 1.0
) -> Data:
    """`size` examples with distinct inputs; counts of valid targets (or classes) change from one to the next."""
    for attempt in range(100):
        g = torch.Generator().manual_seed(seed * 1000 + attempt)
        rng = random.Random(seed * 1000 + attempt)
        m = corpus = None
        if family == "ce_stream":
            corpus = torch.randint(0, VOCAB, (size + 10,), generator=g)
            x = torch.stack([corpus[s : s + 3] for s in range(size + 7)])
            y = torch.stack([corpus[s + 1 : s + 4] for s in range(size + 7)])
        elif family in TOKEN_FAMILIES:
            x = torch.randint(0, VOCAB, (size, LENGTH), generator=g)
            y = torch.randint(0, VOCAB, (size, LENGTH), generator=g)
        elif family == "masked_mse":
            x = torch.randn(size, LENGTH, 3, generator=g, dtype=torch.float64)
            y = torch.randn(size, LENGTH, generator=g, dtype=torch.float64)
        else:
            x = torch.randn(size, 3, generator=g, dtype=torch.float64)
            y = row_targets(family, size, g)
        if family in ("ce_ignore", "ce_smooth", "ce_shift", *MASKED_FAMILIES):
            keep = torch.zeros(size, LENGTH, dtype=torch.bool)
            for i in range(size):  # pairs of examples share a count, so that microbatches of two differ
                keep[i, rng.sample(range(LENGTH), pattern[i // 2 % len(pattern)])] = True
            if family in MASKED_FAMILIES:
                m = keep.double()
            else:
                y = y.masked_fill(~keep, ignore)
        if family == "ctc":  # y: label sequences of length 1 or 2 without the blank 0, m: their lengths
            y = torch.tensor([[1 + i % 4, 1 + (i + 1 + i // 4) % 4] for i in range(size)])
            m = torch.tensor([1 + i // 2 % 2 for i in range(size)])
        data = Data(family, x, y, m, corpus, ignore=ignore)
        data.weights = data.weights * class_scale
        data.where = {row.contiguous().numpy().tobytes(): i for i, row in enumerate(x)}
        if len(data.where) == len(x):
            return data
    raise AssertionError("no distinct examples")


def loss_sum(data: Data, model: Net, picked: list[int]) -> tuple[torch.Tensor, float]:
    """The loss summed over the targets of these examples, and the sum of their weights (the count)."""
    x, y = data.x[picked], data.y[picked]
    mask = data.m[picked] if data.m is not None else None
    out = model(x)
    family = data.family
    if family in ("mse", "l1", "bce", "masked_mse"):
        error = out.squeeze(-1) - y
        if family == "l1":
            each = torch.where(error.abs() < 1, error**2 / 2, error.abs() - 0.5)
        elif family == "bce":
            logit = out.squeeze(-1)
            each = -(y * torch.log(torch.sigmoid(logit)) + (1 - y) * torch.log(1 - torch.sigmoid(logit)))
        else:
            each = error**2
        weight = mask if mask is not None else torch.ones_like(each)
        return (each * weight).sum(), float(weight.sum())
    log_p = out - torch.log(torch.exp(out).sum(-1, keepdim=True))
    if family == "ctc":  # each sequence's loss is divided by its own length; the count is the number of sequences
        each = ctc_by_paths(log_p, y, mask)
        return (each / mask).sum(), float(len(y))
    if family == "ce_shift":
        log_p, y = log_p[:, :-1], y[:, 1:]
    if family == "kl":
        return (y * (torch.log(y) - log_p)).sum(), float(len(y))
    valid = torch.ones_like(y, dtype=torch.float64) if mask is None else mask
    if family in ("ce_ignore", "ce_smooth", "ce_shift"):
        valid = (y != data.ignore).double()
    labels = y.clamp(min=0)
    each = -log_p.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    if family == "ce_smooth":
        each = 0.9 * each - 0.1 * log_p.mean(-1)
    if family == "ce_weighted":
        valid = data.weights[y]
    return (each * valid).sum(), float(valid.sum())


def ctc_by_paths(log_p: torch.Tensor, labels: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
    """CTC by its definition: the probability of all alignments that collapse to the labels. LENGTH is small enough."""
    assert lengths is not None
    losses = []
    for scores, target, length in zip(log_p, labels.tolist(), lengths.tolist(), strict=True):
        paths = [
            sum(scores[t, symbol] for t, symbol in enumerate(path))
            for path in itertools.product(range(VOCAB), repeat=len(scores))
            if collapse(path) == target[:length]
        ]
        losses.append(-torch.logsumexp(torch.stack(paths), 0))
    return torch.stack(losses)


def collapse(path: tuple[int, ...]) -> list[int]:
    return [symbol for symbol, _ in itertools.groupby(path) if symbol]


def sum_gradient(data: Data, model: Net, picked: list[int]) -> tuple[torch.Tensor, float]:
    """The gradient of the loss sum as one flat vector, and the count. Does not touch `.grad`."""
    recorder, model.recorder = model.recorder, None
    try:
        total, count = loss_sum(data, model, picked)
        grads = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    finally:
        model.recorder = recorder
    return torch.cat(
        [(torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(model.parameters(), grads, strict=True)]
    ), count
