"""Is an inserted count the loss's own normaliser? Asked of torch, on drawn data D1, D2 and D1+D2, in fp64.

Two identities, in values and in gradients:  L12 * (n1 + n2) == L1 * n1 + L2 * n2  for the original mean, and
mean * n == sum for the repaired sum. The data hold ignored targets, a part without any valid target, a part with one,
and parts of different classes. This module does not import torch; the programs run in a `Runner`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from accumlint.harness.runner import Job, Runner, Status

SEEDS = (0, 1, 2)
SIZES = {"T": 6, "U": 5, "C": 5, "D": 3}
"""U is T without one: outputs that were shifted already."""
# As in tolerances.py, which needs torch. A leaf that casts to fp32 is held to fp32.
LIMITS = {"torch.float64": 1e-12, "torch.float32": 1e-5, "torch.bfloat16": 3e-2, "torch.float16": 3e-2}
KINDS = (
    "logits",  # differentiable
    "log_probabilities",  # differentiable; normalised over `class_dim`
    "values",  # differentiable: a regression's output
    "token_losses",  # differentiable, positive: what a `reduction="none"` loss returned
    "class_targets",  # integers below `classes`; some are `ignore_index`, unless that is None
    "binary_targets",  # 0.0 or 1.0
    "float_targets",
    "probabilities",
    "class_weights",  # positive
    "mask",  # 0 or 1 in `dtype`
    "lengths",  # integers from `shortest` to `longest`
)


@dataclass(frozen=True)
class Leaf:
    """One argument of the programs. `shape` holds numbers and symbols: "B" the batch, others from `sizes`.

    A leaf without "B" is shared by D1 and D2 (class weights). All leaves whose valid positions must agree come from
    one leaf: derive the others inside the program.
    """

    name: str
    kind: str
    shape: tuple[str | int, ...]
    classes: int = 5
    ignore_index: int | None = None
    class_dim: int = -1
    dtype: str = "bool"
    first_class: int = 0
    shortest: int = 1
    longest: int = 6

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of leaf: {self.kind!r}")

    def describe(self) -> dict[str, Any]:
        batch_dim = self.shape.index("B") if "B" in self.shape else None
        return {**asdict(self), "shape": list(self.shape), "batch_dim": batch_dim}


@dataclass(frozen=True)
class LeafPair:
    """A program text that defines `mean_loss`, `count` and, if the repair uses one, `sum_loss`.

    Each takes the leaves as keyword arguments. `import torch` and `import torch.nn.functional as F` may stand in it.
    """

    source: str
    leaves: tuple[Leaf, ...]
    mean: str = "mean_loss"
    sum: str | None = "sum_loss"
    count: str = "count"


@dataclass(frozen=True)
class LeafReport:
    """`holds` only if every identity held within `limit` on every drawing; `reason` says in one line why not.

    `drawings` are (scenario, seed, n1, n2, n12).
    """

    holds: bool
    reason: str = ""
    error: float = math.inf
    limit: float = LIMITS["torch.float64"]
    errors: dict[str, float] = field(default_factory=dict)
    drawings: tuple[tuple[Any, ...], ...] = ()
    seeds: tuple[int, ...] = ()
    engine: str = ""
    seconds: float = 0.0
    ways: frozenset[str] = frozenset()  # outcomes of tests in the programs, where they note them

    @property
    def counts(self) -> tuple[tuple[float, float], ...]:
        """(n1, n2) of each drawing."""
        return tuple((drawing[2], drawing[3]) for drawing in self.drawings)


@cache
def _engine_text() -> str:
    text = Path(__file__).with_name("leaf_engine.py").read_text(encoding="utf-8")
    return text.replace("from __future__ import annotations\n", "")


def check_pair(
    pair: LeafPair, runner: Runner, *, seeds: Sequence[int] = SEEDS, sizes: dict[str, int] | None = None
) -> LeafReport:
    """Check that `count` normalises `mean_loss` and that `sum_loss` is its sum. An error of the program is a reason."""
    job = Job(
        "leaf",
        f"{pair.source.rstrip()}\n\n\n{_engine_text()}",
        entry="leaf_run",
        arguments={
            "pair": {"mean": pair.mean, "sum": pair.sum, "count": pair.count},
            "leaves": [leaf.describe() for leaf in pair.leaves],
            "seeds": list(seeds),
            "sizes": {**SIZES, **(sizes or {})},
        },
    )
    result = runner.run(job)
    if not result.ok:
        reason = f"{result.error_type}: {result.error}" if result.status is Status.RAISED else result.error
        return LeafReport(False, f"{result.status.value}: {reason}", seeds=tuple(seeds), seconds=result.seconds)
    value = result.value
    limit = LIMITS.get(value.get("dtype", "torch.float64"), LIMITS["torch.float64"])
    errors: dict[str, float] = value["errors"]
    error = max(errors.values(), default=math.inf)
    reason = value["problem"] or _explain(errors, limit)
    return LeafReport(
        holds=not reason,
        reason=reason,
        error=math.inf if value["problem"] else error,
        limit=limit,
        errors=errors,
        drawings=tuple(tuple(drawing) for drawing in value["drawings"]),
        seeds=tuple(seeds),
        engine=f"torch {runner.torch_version}",
        seconds=result.seconds,
        ways=frozenset(value.get("ways", ())),
    )


def check_pairs(pairs: Iterable[LeafPair], runner: Runner) -> list[LeafReport]:
    return [check_pair(pair, runner) for pair in pairs]


def _explain(errors: dict[str, float], limit: float) -> str:
    if not errors:
        return "nothing was drawn"
    broken = [f"{name}: {error:.1e}" for name, error in errors.items() if not error <= limit]
    return f"relative error above {limit:g} in {'; '.join(broken)}" if broken else ""
