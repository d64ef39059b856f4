"""Drops features of a failing program until nothing more can go: what is left is small enough to read."""

from __future__ import annotations

from collections.abc import Callable

from tests.generated.features import Features, disputed, intended, valid
from tests.generated.generate import Program, build

# moves towards the plainest program: each is tried, alone, as long as the predicate still holds
MOVES: list[dict[str, object]] = [
    {"shape": "function", "loss_helper": False, "update_helper": False, "k_from": "param"},
    {"shape": "helpers", "k_from": "param"},
    {"loss_helper": False},
    {"update_helper": False},
    {"k_from": "param"},
    {"scaler": "none", "scaler_fault": "none", "autocast": False},
    {"scaler_fault": "none"},
    {"autocast": False},
    {"clip": "none", "clip_at": "boundary"},
    {"clip_at": "boundary"},
    {"clip": "norm"},
    {"sched": "none"},
    {"step_at": "boundary"},
    {"log": False},
    {"hints": False},
    {"comments": False},
    {"by_hand": False},
    {"style": "F"},
    {"batch": "tuple"},
    {"clear": "after", "clear_call": "optimizer"},
    {"clear": "after"},
    {"clear_call": "optimizer"},
    {"clear_before": False},
    {"loop": "microstep", "data": "get_batch", "boundary": "n/a", "tail": "n/a"},
    {"loop": "range", "data": "get_batch", "boundary": "plus1", "tail": "n/a"},
    {"loop": "enumerate", "data": "list", "boundary": "plus1", "tail": "or_last"},
    {"data": "list"},
    {"data": "drop"},
    {"boundary": "plus1"},
    {"tail": "usable"},
    {"tail": "or_last"},
    {"epochs": False},
    {"epochs": True},
    {"loss": "mse"},
    {"loss": "ce"},
    {"loss": "ce_ignore"},
    {"loss": "masked_mse"},
    {"division": "stmt"},
    {"division": "deferred"},
    {"division": "sum_only"},
]


def shrink(program: Program, predicate: Callable[[Program], bool]) -> Program:
    """The smallest program reached by the moves for which the predicate (true for `program`) still holds."""
    assert predicate(program), "nothing to shrink: the predicate does not hold"
    best = program
    changed = True
    while changed:
        changed = False
        for move in MOVES:
            features: Features = {**best.features, **move}
            if all(best.features[key] == value for key, value in move.items()) or not valid(features):
                continue
            features["codes"] = sorted(f"{code}@{mark}" for code, mark in intended(features))
            features["disputed"] = disputed(features)
            candidate = build(features, best.features["style_seed"], best.features["seed"])
            if weight(candidate) < weight(best) and predicate(candidate):
                best, changed = candidate, True
    return best


def weight(program: Program) -> tuple[int, int]:
    return len(program.source.splitlines()), len(program.source)
