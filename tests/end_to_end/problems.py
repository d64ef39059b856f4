"""Building blocks of problems: tiny nonlinear models, microbatches with unequal counts, losses as (sum, count)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from drive import Columns, Examples, Problem, Recorder
from torch import nn

Run = Callable[[dict, Recorder], object]

VOCABULARY = 11
LENGTH = 5
# valid targets of each microbatch: unequal, with a microbatch that has none; 7 microbatches leave a partial window of 3
COUNTS = (7, 2, 0, 9, 1, 4, 3)
# the same with a partial window that has no valid target at all
COUNTS_EMPTY_WINDOW = (7, 2, 0, 9, 1, 4, 0)
K = 3
WINDOWS = (3, 3, 1)


def sgd(model: nn.Module, lr: float = 0.05) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=lr)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1e-2)


def scaler() -> torch.amp.GradScaler:
    """A scaler that is on: a power of two, so that scaling loses no digit."""
    return torch.amp.GradScaler("cpu", init_scale=2.0**10)


def dense(inputs: int, outputs: int = 1) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 7), nn.Tanh(), nn.Linear(7, outputs))


def token_model() -> nn.Module:
    return nn.Sequential(nn.Embedding(VOCABULARY, 6), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, VOCABULARY))


def mean_over_rows(loss: Callable[..., torch.Tensor], column: str = "y") -> Callable[..., tuple[torch.Tensor, float]]:
    """(sum, count) of an elementwise torch loss between the model's output and one column, one target an example."""

    def total(model: nn.Module, keys: torch.Tensor, columns: Columns) -> tuple[torch.Tensor, float]:
        output, target = model(keys), columns[column]
        if output.dim() == target.dim() + 1 and output.size(-1) == 1:
            output = output.squeeze(-1)
        return loss(output, target, reduction="sum"), float(target.numel())

    return total


def token_loss(ignore: int = -100, shift: bool = False) -> Callable[..., tuple[torch.Tensor, float]]:
    """(sum, count) of the cross entropy over the labels that are not `ignore`."""

    def total(model: nn.Module, keys: torch.Tensor, columns: Columns) -> tuple[torch.Tensor, float]:
        logits, labels = model(keys), columns["labels"]
        if shift:
            logits, labels = logits[:, :-1], labels[:, 1:]
        keep = labels != ignore
        if not bool(keep.any()):
            return logits.sum() * 0.0, 0.0
        return -logits.log_softmax(-1)[keep].gather(1, labels[keep][:, None]).sum(), float(keep.sum())

    return total


def valid_labels(shape: tuple[int, int], count: int, ignore: int = -100, shift: bool = False) -> torch.Tensor:
    """Labels with `count` valid ones; with `shift`, the first column is valid as well and must not be counted."""
    labels = torch.randint(1, VOCABULARY, shape)
    where = [(row, column) for row in range(shape[0]) for column in range(int(shift), shape[1])]
    hidden = [where[i] for i in torch.randperm(len(where)).tolist()[min(count, len(where)) :]]
    for row, column in hidden:
        labels[row, column] = ignore
    return labels


class Tokens:
    """Token microbatches of shape [2, 5] (the last [1, 5]) with the given numbers of valid labels."""

    def __init__(self, counts: Sequence[int] = COUNTS, ignore: int = -100, shift: bool = False) -> None:
        self.batches: list[tuple[torch.Tensor, torch.Tensor]] = []
        for k, count in enumerate(counts):
            shape = (1 if k == len(counts) - 1 else 2, LENGTH)
            self.batches.append((torch.randint(0, VOCABULARY, shape), valid_labels(shape, count, ignore, shift)))
        self.examples = Examples(
            torch.cat([x for x, _ in self.batches]), {"labels": torch.cat([y for _, y in self.batches])}
        )

    def dicts(self, x: str, y: str) -> list[dict[str, torch.Tensor]]:
        return [{x: tokens, y: labels} for tokens, labels in self.batches]


def tokens_problem(
    run: Callable[[nn.Module, Tokens], Run],
    windows: tuple[int, ...] = WINDOWS,
    *,
    counts: Sequence[int] = COUNTS,
    ignore: int = -100,
    shift: bool = False,
    modules: Mapping = {},
) -> Problem:
    """A problem over token microbatches with unequal numbers of valid labels."""
    model, tokens = token_model(), Tokens(counts, ignore, shift)
    return Problem(model, tokens.examples, token_loss(ignore, shift), run(model, tokens), windows, modules=modules)


def stream_problem(
    run: Callable[[nn.Module, torch.Tensor], Run],
    windows: tuple[int, ...] = (3, 3),
    *,
    length: int = 60,
    block: int = 8,
    modules: Mapping = {},
) -> Problem:
    """A problem over blocks of fixed length drawn from one stream of tokens: equal counts."""
    model, ids = token_model(), torch.randint(0, VOCABULARY, (length,))
    keys = torch.stack([ids[s : s + block] for s in range(length - block)])
    labels = torch.stack([ids[s + 1 : s + block + 1] for s in range(length - block)])
    examples = Examples(keys, {"labels": labels})
    return Problem(model, examples, token_loss(), run(model, ids), windows, modules=modules)


class Table:
    """Feature rows with one target each, as a dataset or cut into microbatches."""

    def __init__(self, rows: int, features: int = 4, classes: int | None = None, binary: bool = False) -> None:
        self.x = torch.randn(rows, features)
        self.y = torch.randn(rows) if classes is None else torch.randint(0, classes, (rows,))
        if binary:
            self.y = (self.y > 0).to(self.x.dtype)
        self.examples = Examples(self.x, {"y": self.y})

    @property
    def dataset(self) -> torch.utils.data.TensorDataset:
        return torch.utils.data.TensorDataset(self.x, self.y)

    def cut(self, sizes: Sequence[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return list(zip(self.x.split(list(sizes)), self.y.split(list(sizes)), strict=True))


def table_problem(
    run: Callable[[nn.Module, Table], Run],
    windows: tuple[int, ...],
    rows: int,
    loss: Callable[..., torch.Tensor] = nn.functional.cross_entropy,
    *,
    classes: int | None = 3,
    binary: bool = False,
    modules: Mapping = {},
) -> Problem:
    """A problem over feature rows with one target each."""
    table = Table(rows, classes=classes, binary=binary)
    model = dense(4, classes or 1)
    return Problem(model, table.examples, mean_over_rows(loss), run(model, table), windows, modules=modules)
