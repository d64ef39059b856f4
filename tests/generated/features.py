"""What a generated program is made of, which makes go together, and which faults a composition is meant to hold.

`choose(rng)` draws one composition; `intended(features)` says which codes it must bear and at which construct,
by `rules.md`, before anything is executed. `execute.py` finds the same answer by running the program; a test
holds the two against each other, so neither is trusted alone.
"""

from __future__ import annotations

import random
from typing import Any

Features = dict[str, Any]

ROW_LOSSES = ("ce", "nll", "mse", "l1", "bce", "kl", "arg")  # one target an example: the count is the batch size
TOKEN_LOSSES = ("ce_ignore", "ce_filled", "ce_smooth")  # the count is the number of targets that are not ignored
OTHER_VARIED = ("ce_weighted", "masked_mse", "masked_ce")
VARIED = TOKEN_LOSSES + OTHER_VARIED
FIXED_TOKENS = ("ce_stream",)  # token cross entropy over blocks of a token stream: every target is valid
MASKED = ("ce_filled", "masked_mse", "masked_ce")

LOSS_SIDE = ("stmt", "aug", "inline", "backward", "helper")  # the loss is divided by K, in one of these places
CONSTANT = (*LOSS_SIDE, "grads", "twice")  # divided by K somewhere
EQUAL = (*CONSTANT, "window")  # every microbatch mean gets the same weight
SUMS = ("deferred", "precount", "sum_only")  # the loss is a sum
COUNTED = ("deferred", "deferred_mean", "precount", "share")  # right for any counts
UNDIVIDED = ("none", "after_backward")

FLAT = ("enumerate", "range", "while")  # one loop over microbatches with a boundary inside
NESTED = ("microstep", "prefetch", "chunks", "slices")  # an inner loop over the microbatches of one window
FINITE = ("list", "keep", "drop")


def sized(f: Features) -> bool:
    """Can a batch be shorter than the others: a finite loader, and nothing shows that it drops its last batch?"""
    return f["data"] in ("list", "keep")


def short_window_steps(f: Features) -> bool:
    return f["loop"] == "chunks" or f["tail"] in ("or_last", "after")


def intended(f: Features) -> set[tuple[str, str]]:
    """The codes of a composition, each with the construct that it is reported on."""
    codes: set[tuple[str, str]] = set()
    if f["division"] in EQUAL:
        if f["loss"] in VARIED:
            codes.add(("ACC101", "backward"))
        elif sized(f):
            codes.add(("ACC102", "backward"))
    if f["division"] in UNDIVIDED:
        codes.add(("ACC103", "backward"))
    if f["division"] == "twice":
        codes.add(("ACC104", "second_division"))
    if f["division"] in CONSTANT and short_window_steps(f):
        codes.add(("ACC107", "backward"))
    if f["clip_at"] == "micro":
        codes.add(("ACC201", "clip"))
        if f["scaler"] != "none" and f["scaler_fault"] != "per_micro":
            codes.add(("ACC202", "clip"))
    if f["scaler_fault"] == "no_unscale":
        codes.add(("ACC202", "clip"))
    if f["step_at"] == "micro":
        codes.add(("ACC301", "step"))
        if f["scaler"] != "none":
            codes.add(("ACC307", "update"))
    if f["clear"] == "top":
        codes.add(("ACC302", "clear"))
    if f["clear"] == "never":
        codes.add(("ACC303", "step"))
    if f["tail"] == "lost":
        codes.add(("ACC304", "boundary"))
    if f["boundary"] == "off_by_one":
        codes.add(("ACC305", "boundary"))
    if f["sched"] == "micro":
        codes.add(("ACC306", "sched"))
    if f["scaler_fault"] == "per_micro":
        codes |= {("ACC307", "unscale"), ("ACC307", "update")}
    return codes


def disputed(f: Features) -> list[str]:
    """Where the truth rests on a reading of rules.md and not on a sentence in it."""
    reasons = []
    if f["division"] == "twice" and (f["loss"] in VARIED or sized(f) or short_window_steps(f)):
        reasons.append("divided twice AND equal weights or a partial window: both reported")
    if f["boundary"] == "off_by_one" and f["tail"] == "or_last" and f["division"] in CONSTANT:
        reasons.append("off by one, flushed, divided by K: the last window counts as ACC107, the first one not")
    if f["tail"] == "lost" and (f["clear"] == "top" or (f["clear_before"] and f["epochs"])):
        reasons.append("the partial window is cleared without a step: lost, so ACC304")
    weights = {"ACC101", "ACC102", "ACC103", "ACC104", "ACC107"}
    if f["clear"] == "top" and weights & {code for code, _ in intended(f)}:
        reasons.append("cleared inside the window AND wrong weights: both reported")
    if f["clear"] == "never" and f["tail"] == "lost":
        reasons.append("never cleared and a lost partial window: both reported")
    return reasons


def valid(f: Features) -> bool:
    """Compositions that make sense and whose truth is not a matter of taste."""
    loop, data, loss, division = f["loop"], f["data"], f["loss"], f["division"]
    flat, nested = loop in FLAT, loop in NESTED
    finite = data in FINITE
    rules = [
        # where the data of a loop can come from
        (loop in ("enumerate", "while", "chunks")) == finite,
        loop != "slices" or data == "tensors",
        loop not in ("range", "microstep", "prefetch") or data in ("get_batch", "stream"),
        # losses
        (loss in FIXED_TOKENS) <= (data == "get_batch"),
        loss != "arg" or (f["style"] == "F" and not f["by_hand"]),
        f["style"] == "F" or (not f["by_hand"] and loss not in ("masked_mse", "masked_ce")),
        not f["by_hand"] or loss not in ("ce_weighted", "ce_smooth", "ce_filled", "kl", "arg"),
        loss != "arg" or division in EQUAL,  # an unseen reduction: no division proves nothing
        # the division
        division != "precount" or loop in ("chunks", "prefetch", "slices"),
        division != "share" or loop in ("chunks", "prefetch", "slices"),
        division != "window"
        or loop in ("chunks", "prefetch", "slices")
        or (loop == "enumerate" and f["boundary"] in ("plus1", "minus1", "flag") and f["tail"] in ("or_last", "after")),
        division != "helper" or f["loss_helper"],
        division != "twice" or f["loss_helper"] or f["second"] == "backward",
        division != "after_backward" or not f["log"],
        # the boundary
        flat == (f["boundary"] != "n/a"),
        loop != "while" or f["boundary"] in ("counter", "start1"),
        f["boundary"] != "start1" or loop in ("enumerate", "while"),
        f["boundary"] != "off_by_one" or (loop == "enumerate" and f["tail"] in ("lost", "or_last")),
        f["boundary"] != "off_by_one" or f["step_at"] != "micro",
        f["boundary"] != "continue" or f["scaler_fault"] != "per_micro",
        f["boundary"] != "continue" or f["step_at"] == "boundary" or f["scaler"] == "none",
        # the tail
        (loop in ("enumerate", "while")) == (f["tail"] != "n/a"),
        loop != "while" or f["tail"] in ("lost", "after"),
        f["tail"] != "usable" or f["boundary"] != "start1",
        f["tail"] != "after" or f["clear"] != "never" or f["update_helper"],
        # the clear
        f["clear"] != "start"
        or nested
        or (f["boundary"] in ("plus1", "minus1") and f["tail"] in ("or_last", "usable", "n/a")),
        f["clear"] != "top" or f["clear_call"] != "param",
        # a step per microbatch: only where the loop visibly accumulates and nothing else hangs on the step
        f["step_at"] == "boundary"
        or (division in LOSS_SIDE and f["clip"] == "none" and loop in ("enumerate", "range", "microstep")),
        f["step_at"] == "boundary"
        or f["clear"] == "after"
        or (f["clear"] == "start" and loop == "microstep" and not f["update_helper"]),
        f["step_at"] == "boundary" or loss not in VARIED,
        f["step_at"] == "boundary" or not sized(f),
        f["step_at"] == "boundary" or f["tail"] in ("n/a", "usable"),
        f["step_at"] == "boundary" or f["sched"] != "micro",
        f["step_at"] == "boundary" or f["scaler_fault"] == "none",
        # clip, schedule, scaler
        f["clip"] != "none" or f["clip_at"] == "boundary",
        f["scaler"] != "none" or f["scaler_fault"] == "none",
        f["scaler_fault"] != "no_unscale" or (f["clip"] != "none" and f["clip_at"] == "boundary"),
        f["scaler_fault"] != "per_micro" or (flat and f["tail"] != "after" and loop != "while"),
        # shapes
        f["shape"] != "class" or f["k_from"] == "self",
        f["shape"] == "class" or f["k_from"] != "self",
        loop != "slices" or f["k_from"] in ("param", "self"),
        f["epochs"] or finite,
        not f["update_helper"] or f["shape"] != "function",
        not f["loss_helper"] or f["shape"] != "function",
    ]
    return all(rules)


def choose(rng: random.Random) -> Features:
    """Draw one composition: which faults first (none, one or two), then everything else until they go together."""
    wanted = rng.choices((0, 1, 2), weights=(34, 41, 25))[0]
    axes: list[str] = []
    while len(axes) < wanted:
        axis = rng.choice(FAULTS)
        if axis not in axes:
            axes.append(axis)
    attempts = 0
    while True:
        attempts += 1
        if attempts > 2000:  # two faults that never go together
            axes, attempts = axes[:1], 0
        f = _right(rng)
        if not valid(f) or intended(f):
            continue
        for axis in axes:
            _break(f, axis, rng)
        codes = {code for code, _ in intended(f)}
        if valid(f) and all(codes & SHOWS[axis] for axis in axes):
            f["codes"] = sorted(f"{code}@{mark}" for code, mark in intended(f))
            f["disputed"] = disputed(f)
            return f


def _right(rng: random.Random) -> Features:
    loop = rng.choices(
        ("enumerate", "range", "while", "microstep", "prefetch", "chunks", "slices"), (38, 10, 8, 14, 6, 14, 10)
    )[0]
    if loop in ("enumerate", "while", "chunks"):
        data = rng.choices(FINITE, (4, 2, 4))[0]
    elif loop == "slices":
        data = "tensors"
    else:
        data = rng.choices(("get_batch", "stream"), (3, 1))[0]
    loss = rng.choice(ROW_LOSSES + VARIED + (FIXED_TOKENS if data == "get_batch" else ()))
    f: Features = {"loop": loop, "data": data, "loss": loss}
    equal = loss not in VARIED and data not in ("list", "keep")
    boundaries = {
        "enumerate": ("plus1", "plus1", "minus1", "start1", "counter", "continue", "flag"),
        "while": ("counter", "start1"),
        "range": ("plus1", "minus1", "counter", "continue", "flag"),
    }
    f["boundary"] = rng.choice(boundaries.get(loop, ("n/a",)))
    tails = {"enumerate": ("or_last", "after", "usable"), "while": ("after",)}
    f["tail"] = rng.choice(tails.get(loop, ("n/a",)))
    safe_k = f["tail"] in ("n/a", "usable") and loop != "chunks"
    if equal:
        f["division"] = rng.choice(
            (*LOSS_SIDE, *LOSS_SIDE, "grads", "window", "deferred", "sum_only")
            if safe_k
            else ("window", "window", "deferred", "sum_only", "precount")
        )
    else:
        f["division"] = rng.choice(("deferred", "deferred", "deferred_mean", "precount", "share", "sum_only"))
    f["clip"] = rng.choice(("none", "norm", "norm", "value"))
    f["clip_at"] = "boundary"
    f["step_at"] = "boundary"
    f["clear"] = rng.choice(("after", "after", "start"))
    f["clear_call"] = rng.choice(("optimizer", "optimizer", "set_to_none", "model", "param"))
    f["clear_before"] = rng.random() < 0.4
    f["scaler"] = rng.choice(("none", "none", "arg", "made"))
    f["scaler_fault"] = "none"
    f["sched"] = rng.choice(("none", "boundary"))
    f["shape"] = rng.choice(("function", "helpers", "nested", "class"))
    f["loss_helper"] = f["shape"] != "function" and rng.random() < 0.6
    f["update_helper"] = f["shape"] != "function" and rng.random() < 0.6
    f["k_from"] = "self" if f["shape"] == "class" else rng.choice(("param", "args", "const"))
    if loop == "slices":
        f["k_from"] = "self" if f["shape"] == "class" else "param"
    f["style"] = rng.choice(("F", "F", "nn"))
    f["by_hand"] = rng.random() < 0.15
    f["batch"] = "tuple" if data in ("get_batch", "tensors") else rng.choice(("tuple", "tuple", "dict"))
    f["epochs"] = rng.random() < 0.7 if data in FINITE else True
    f["second"] = rng.choice(("stmt", "backward"))
    f["log"] = rng.random() < 0.4
    f["hints"] = rng.random() < 0.4
    f["comments"] = rng.random() < 0.5
    f["autocast"] = f["scaler"] != "none" and rng.random() < 0.5
    return f


FAULTS = ("weights", "weights", "weights", "tail", "clip", "clear", "step", "sched", "boundary", "scaler", "partial")
SHOWS = {
    "weights": {"ACC101", "ACC102", "ACC103", "ACC104"},
    "partial": {"ACC107"},
    "tail": {"ACC304"},
    "clip": {"ACC201"},
    "clear": {"ACC302", "ACC303"},
    "step": {"ACC301"},
    "sched": {"ACC306"},
    "boundary": {"ACC305"},
    "scaler": {"ACC202", "ACC307"},
}


def _break(f: Features, axis: str, rng: random.Random) -> None:
    if axis == "weights":
        f["division"] = rng.choice((*LOSS_SIDE, "grads", "window", "none", "none", "after_backward", "twice"))
    elif axis == "partial":
        f["division"] = rng.choice((*LOSS_SIDE, "grads"))
    elif axis == "tail":
        f["tail"] = "lost"
    elif axis == "clip":
        f["clip_at"] = "micro"
    elif axis == "clear":
        f["clear"] = rng.choice(("top", "never"))
        if f["clear"] == "never":
            f["clear_before"] = rng.random() < 0.3 and not f["epochs"]
    elif axis == "step":
        f.update(step_at="micro", clip="none")
    elif axis == "sched":
        f["sched"] = "micro"
    elif axis == "boundary":
        f["boundary"] = "off_by_one"
    elif axis == "scaler":
        f["scaler_fault"] = rng.choice(("no_unscale", "per_micro"))
