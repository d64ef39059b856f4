"""How the distributed cases of tests/cases/dev are called on one rank of several, with the real libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import framework_specs
import torch
from drive import Problem
from framework_specs import rows_of, stacked
from problems import COUNTS, K, Tokens, sgd, stream_problem, token_loss, token_model

PROBLEMS: dict[str, Callable[[int], Problem]] = {}
WORLDS: dict[str, tuple[int, ...]] = {}  # case -> on how many ranks it can run
ACCELERATE = frozenset(
    f"acc{name}"
    for name in (
        "101_accelerate_causal_lm", "104_accelerate_manual_division", "106_accelerate_gathered_count",
        "201_accelerate_unguarded_clip", "302_zero_first_accelerate", "306_accelerate_unprepared",
    )
)  # fmt: skip
STEPS = 2


def case(name: str, *worlds: int) -> Callable[[Callable[[int], Problem]], Callable[[int], Problem]]:
    def register(build: Callable[[int], Problem]) -> Callable[[int], Problem]:
        PROBLEMS[name], WORLDS[name] = build, worlds
        return build

    return register


def my_rank() -> int:
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


def own_batches(tokens: Tokens, world: int) -> list[dict[str, torch.Tensor]]:
    """Every other batch; all ranks have equally many."""
    batches = tokens.dicts("tokens", "labels")[: len(tokens.batches) // world * world]
    return batches[my_rank() :: world]


@case("acc106_ddp_scale_grads", 2)
def ddp_scale_grads(world: int) -> Problem:
    model, tokens = token_model(), Tokens(COUNTS)
    batches = own_batches(tokens, world)
    return Problem(
        model,
        tokens.examples,
        token_loss(),
        lambda ns, _: ns["recipe"](model, batches, 0.01, STEPS, 2, my_rank()),
        (2, 1, 2, 1),
    )


@case("acc106_accelerate_gathered_count", 2)
def accelerate_gathered_count(world: int) -> Problem:
    model, tokens = token_model(), Tokens(COUNTS)
    loader = torch.utils.data.DataLoader(rows_of(tokens)[:12], batch_size=2, collate_fn=stacked)
    return Problem(
        model, tokens.examples, token_loss(), lambda ns, _: ns["train"](model, loader, sgd(model), STEPS), (2, 1)
    )


@case("acc308_flag_set_after_forward", 2)
def flag_set_after_forward(world: int) -> Problem:
    def run(model, ids):
        return lambda ns, _: ns["run"](model, ids, my_rank(), world, 2, K)

    return stream_problem(run, (K, K), length=128 * world * K * 2 + 1, block=32)


@case("acc308_no_sync_wrong_modulo", 2)
def no_sync_wrong_modulo(world: int) -> Problem:
    def run(model, ids):
        return lambda ns, _: ns["train"](model, ids, my_rank(), 2 * K, accum=K, block=8, bs=2)

    return stream_problem(run, (K, K))


@case("ok_ddp_precount_world_size", 2)
def ddp_precount(world: int) -> Problem:
    model, tokens = token_model(), Tokens(COUNTS)
    batches = [{"input_ids": each["tokens"], "labels": each["labels"]} for each in own_batches(tokens, world)]
    return Problem(
        model,
        tokens.examples,
        token_loss(),
        lambda ns, _: ns["train"](model, batches, sgd(model), 0, STEPS),
        (2, 1),
    )


@case("ok_fairseq_style_multiply_grads", 2)
def fairseq_style(world: int) -> Problem:
    model, tokens = token_model(), Tokens(COUNTS, ignore=1)
    batches = [{"net_input": each["tokens"], "target": each["labels"]} for each in own_batches(tokens, world)]

    def run(ns, _):
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        loop = ns["UpdateLoop"](wrapped, ns["label_nll"], sgd(model), STEPS, 1.0)
        for start in range(0, len(batches), STEPS):
            loop.train_step(batches[start : start + STEPS])

    return Problem(model, tokens.examples, token_loss(ignore=1), run, (2, 1))


def with_real_accelerate(name: str) -> Callable[[int], Problem]:
    """The problem of the stand-in, on the library itself."""

    def build(world: int) -> Problem:
        problem = framework_specs.SPECS[name]["base"]()
        kept = {key: module for key, module in problem.modules.items() if not key.startswith("accelerate")}
        return replace(problem, modules=kept)

    return build


@case("acc101_accelerate_causal_lm", 1, 2)
def causal_lm(world: int) -> Problem:
    """Seven batches, three times; two ranks get four each, since Accelerate repeats rows to make them even."""
    problem = with_real_accelerate("acc101_accelerate_causal_lm")(world)
    return problem if world == 1 else replace(problem, windows=(K,) * 4)


for _name in sorted(ACCELERATE - PROBLEMS.keys()):
    case(_name, 1, 2)(with_real_accelerate(_name))
