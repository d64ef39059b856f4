"""The prelude of every gradient slice: a tiny nonlinear fp64 model, its data, and the full batch beside it.

This file's text runs in the harness' worker before a straight-line program (see `slices.py`); nothing of it runs in
accumlint's own process, and it imports nothing. `torch` is passed in.
"""

from __future__ import annotations

from typing import Any

SLICE_CLASSES, SLICE_WIDTH, SLICE_IGNORED, SLICE_RATE = 5, 4, -100, 0.3
SLICE_RANK = 31  # between the seeds of the ranks' data
SLICE_NORM, SLICE_VALUE = 0.02, 0.004  # far below every gradient here, so that a clip is active


class SliceData:
    """Microbatch k: `counts[k]` valid targets among ignored ones, for each site its own labels."""

    def __init__(self, torch: Any, counts: list[int], sites: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.x, self.y = [], []
        for count in counts:
            rows = count + 2
            self.x.append(torch.randint(0, 7, (rows,), generator=generator))
            labels = torch.randint(0, SLICE_CLASSES, (sites, rows), generator=generator)
            labels[:, count:] = SLICE_IGNORED
            self.y.append(labels)


def slice_parameters(torch: Any, seed: int) -> list[Any]:
    generator = torch.Generator().manual_seed(seed + 1)
    shapes = ((7, SLICE_WIDTH), (SLICE_WIDTH, SLICE_WIDTH), (SLICE_WIDTH, SLICE_CLASSES))
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [value.requires_grad_() for value in drawn]


def slice_loss(torch: Any, parameters: list[Any], x: Any, y: Any, site: int, reduction: str) -> Any:
    """A cross-entropy of a nonlinear model; every site looks at the hidden layer in its own way."""
    first, second, last = parameters
    hidden = torch.tanh(torch.nn.functional.embedding(x, first) @ second)
    logits = torch.tanh(hidden * (1.0 + site)) @ last
    return torch.nn.functional.cross_entropy(logits, y[site], ignore_index=SLICE_IGNORED, reduction=reduction)


class Slice:
    """What the program under test does: real backward, real `.grad`, real clip, real optimizer."""

    def __init__(self, torch: Any, counts: list[int], sites: int, seed: int) -> None:
        self.torch, self.counts = torch, counts
        self.data = SliceData(torch, counts, sites, seed)
        self.parameters = slice_parameters(torch, seed)
        self.optimizer = torch.optim.SGD(self.parameters, lr=SLICE_RATE)
        self.factor, self.scaled, self.clips_active = 1024.0, False, True
        self.before: list[Any] | None = None
        self.steps: list[tuple[list[Any], list[Any], list[Any]]] = []

    def gradient(self) -> list[Any]:
        return [self.torch.zeros_like(p) if p.grad is None else p.grad.detach().clone() for p in self.parameters]

    def backward(self, terms: list[tuple[int, int, str, float]], scaled: bool = False, synced: bool = True) -> None:
        """`terms` are (site, microbatch, reduction, coefficient); one graph, one `loss.backward()`."""
        loss = self.loss(self.parameters, terms)
        if loss is None:
            return
        if scaled:
            loss, self.scaled = loss * self.factor, True
        loss.backward()

    def loss(self, parameters: list[Any], terms: list[tuple[int, int, str, float]]) -> Any:
        total = None
        for site, k, reduction, coefficient in terms:
            part = slice_loss(self.torch, parameters, self.data.x[k], self.data.y[k], site, reduction)
            part = part * coefficient
            total = part if total is None else total + part
        return total

    def scale(self, by: float, divide: bool = False) -> None:
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.div_(by) if divide else parameter.grad.mul_(by)

    def unscale(self) -> None:
        if self.scaled:
            self.scale(1.0 / self.factor)
            self.scaled = False

    def update(self) -> None:
        self.factor = 512.0 if self.factor == 1024.0 else 1024.0

    def clip(self, kind: str) -> None:
        if self.before is None:
            self.before = self.gradient()
        size = max((float(g.abs().max()) for g in self.gradient()), default=0.0)
        if kind == "value":
            self.torch.nn.utils.clip_grad_value_(self.parameters, SLICE_VALUE)
            self.clips_active &= size > SLICE_VALUE or size == 0.0
        else:
            norm = self.torch.nn.utils.clip_grad_norm_(self.parameters, SLICE_NORM)
            self.clips_active &= float(norm) > SLICE_NORM or float(norm) == 0.0

    def step(self) -> None:
        used = self.gradient()
        before, self.before = self.before, None
        self.optimizer.step()
        now = [p.detach().clone() for p in self.parameters]
        self.steps.append((used if before is None else before, used, now))

    def clear(self) -> None:
        self.optimizer.zero_grad()

    def leftover(self) -> bool:
        return any(p.grad is not None and bool((p.grad != 0).any()) for p in self.parameters)


def slice_full_batch(
    torch: Any,
    counts: list[list[int]],
    factors: list[float],
    seed: int,
    windows: list[list[int]],
    clip: str,
    mean: bool = True,
) -> list[tuple[list[Any], list[Any], list[Any]]]:
    """The same windows as full batches of all ranks: one graph, `torch.autograd.grad`, clip and step by formula.

    `counts` holds the microbatches of each rank; a loop of one process has one. Without `mean` the objective is a sum.
    """
    ranks = [SliceData(torch, own, len(factors), seed + SLICE_RANK * rank) for rank, own in enumerate(counts)]
    parameters = slice_parameters(torch, seed)
    steps = []
    for window in windows:
        total = sum(own[k] for own in counts for k in window)
        gradient = [torch.zeros_like(p) for p in parameters]
        if total:
            x = torch.cat([data.x[k] for data in ranks for k in window])
            y = torch.cat([data.y[k] for data in ranks for k in window], dim=1)
            loss = sum(f * slice_loss(torch, parameters, x, y, s, "sum") for s, f in enumerate(factors))
            loss = loss / total if mean else loss
            gradient = list(torch.autograd.grad(loss, parameters))
        used = gradient
        if clip == "value":
            used = [g.clamp(-SLICE_VALUE, SLICE_VALUE) for g in gradient]
        elif clip:
            norm = sum(float(g.square().sum()) for g in gradient) ** 0.5
            used = [g * min(1.0, SLICE_NORM / (norm + 1e-6)) for g in gradient]
        parameters = [(p - SLICE_RATE * g).detach().requires_grad_() for p, g in zip(parameters, used, strict=True)]
        steps.append((gradient, used, [p.detach().clone() for p in parameters]))
    return steps


def slice_distance(actual: list[Any], expected: list[Any]) -> float:
    """Relative L2 over all tensors; infinite for NaN and for something beside nothing."""
    difference: float = sum(float((a - b).square().sum()) for a, b in zip(actual, expected, strict=True)) ** 0.5
    size: float = sum(float(b.square().sum()) for b in expected) ** 0.5
    if difference != difference or size != size:
        return 1e300
    if size == 0.0:
        return 0.0 if difference == 0.0 else 1e300
    return difference / size


def slice_compare(ran: Slice, wanted: list[Any]) -> dict[str, Any]:
    """The largest error of each kind over the steps. Parameters are compared too: SGD hides no scale."""
    errors = [0.0, 0.0, 0.0]
    for actual, expected in zip(ran.steps, wanted, strict=False):
        for place in range(3):
            errors[place] = max(errors[place], slice_distance(actual[place], expected[place]))
    return {
        "error": errors[0],
        "clipped": errors[1],
        "parameters": errors[2],
        "steps": len(ran.steps),
        "wanted": len(wanted),
        "leftover": ran.leftover(),
        "active": ran.clips_active,
    }
