"""The judge against cases that others wrote and labelled by hand: execution must find exactly their expectations.

This guards against a generator and a judge that share one misreading of the rules.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest

pytest.importorskip("torch")

FOLDER = pathlib.Path(__file__).parent.parent / "cases" / "dev"
EXPECT = re.compile(r"#\s*expect:\s*((?:ACC\d{3})(?:\s*,\s*ACC\d{3})*)\s*$")
BASIC = {"model": "model", "optimizer": "optimizer"}
LOADER = {**BASIC, "loader": "loader"}
DATASET = {**BASIC, "dataset": "dataset"}


def case(entry: str, loss: str, data: str, args: dict[str, str], fields: dict[str, str] | None = None) -> Any:
    call = {"fields": fields or {}, "consts": {}, "method": "", "init": {}, "args": args}
    return entry, loss, data, call


CASES = {
    "acc101_ignore_index_dataclass": case(
        "fit",
        "ce_shift",
        "list",
        {**LOADER, "cfg": "args"},
        {"grad_accum": "k", "max_norm": "clip", "epochs": "epochs"},
    ),
    "acc102_criterion_argument": case(
        "train_one_epoch", "ce", "list", {**LOADER, "criterion": "criterion", "accumulation_steps": "k"}
    ),
    "acc102_grouped_loader_no_drop_last": case(
        "train_epochs", "ce", "keep", {**DATASET, "batch_size": "batch_size", "group": "k"}
    ),
    "acc107_drop_last_or_final": case("train", "ce", "drop", {**DATASET, "batch_size": "batch_size", "accum": "k"}),
    "acc201_clip_value_outside_if": case("train", "ce_ignore", "list", {**LOADER, "accum": "k", "clip": "clip"}),
    "acc301_pending_continue": case(
        "fit", "bce", "tensors", {**BASIC, "features": "x_all", "targets": "y_all", "k": "k", "batch": "batch_size"}
    ),
    "acc302_loop_top": case(
        "train",
        "mse",
        "get_batch",
        {**BASIC, "x": "x_all", "y": "y_all", "updates": "updates", "num_micro": "k", "bs": "batch_size"},
    ),
    "acc304_counter_reset_each_epoch": case(
        "run", "l1", "drop", {**DATASET, "args": "args"}, {"batch_size": "batch_size", "epochs": "epochs", "accum": "k"}
    ),
    "acc304_leaks_into_next_epoch": case("train", "ce", "drop", {**DATASET, "bs": "batch_size", "accum": "k"}),
    "acc305_batch_idx_mod_k": case("train", "ce", "drop", {**DATASET, "bs": "batch_size", "accumulation_steps": "k"}),
    "acc305_token_normalised_off_by_one": case("finetune", "ce_ignore", "list", {**LOADER, "k": "k"}),
    "ok_deferred_sum_and_count": case("train", "ce_ignore", "list", {**LOADER, "accum": "k"}),
    "ok_drop_last_classification": case("train", "ce", "drop", {**DATASET, "bs": "batch_size", "accum": "k"}),
    "ok_precount_window": case("train", "masked_mse", "list", {**LOADER, "k": "k"}),
}


@pytest.mark.parametrize("name", CASES)
def test_execution_finds_what_was_labelled_by_hand(name: str) -> None:
    from tests.generated.judge import executed_truth

    entry, loss, data, call = CASES[name]
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    wanted = set()
    for number, line in enumerate(source.splitlines(), 1):
        if found := EXPECT.search(line):
            wanted |= {(code.strip(), number) for code in found[1].split(",")}
    boundary = [number for code, number in wanted if code in ("ACC304", "ACC305")] or [0]
    features = {
        "loss": loss,
        "data": data,
        "batch": "dict" if 'batch["x"]' in source else "tuple",
        "token_keys": {"x": "x", "y": "y", "m": "mask"},
        "ignore_value": -100,
        "clip": "value" if "clip_grad_value_" in source else "norm",
        "call": call,
        "marks": {"boundary": boundary, "second_division": [0]},
    }
    assert executed_truth(source, entry, features) == wanted
