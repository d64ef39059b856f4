"""Executes bases and mutants: single-process ones here, distributed ones together on two ranks."""

from __future__ import annotations

import importlib.util

from tests.mutants.bases import BASES, Base
from tests.mutants.catalogue import Mutant, mutants, source
from tests.mutants.ranks import available, differences_on_ranks

# these stop with an exception, which is as far from the full batch as can be
RAISES = {
    ("deferred, flushed after the loop", "flush_unguarded"): "clips when no parameter has a gradient",
    ("deferred CTC", "reset_too_early"): "divides by zero",
    ("deferred, only batch sizes differ", "reset_too_early"): "divides by zero",
}


def is_distributed(item: Base | Mutant) -> bool:
    return bool(item.features.get("ranks", 1) > 1)


def has_library(item: Base | Mutant) -> bool:
    needed = item.features.get("needs")
    return needed is None or importlib.util.find_spec(needed) is not None


def run_single(distinct: list[Base] | list[Mutant]) -> list[list[str]]:
    from tests.generated.judge import differences

    return [
        differences(item.source if isinstance(item, Mutant) else source(item), item.entry, item.features)
        for item in distinct
    ]


def run_all() -> tuple[dict[str, list[str]], dict[tuple[str, str], list[str]]]:
    """Differences from the full batch of every base and every mutant. Distributed ones only where gloo is there."""
    everything = mutants()
    single_bases = [base for base in BASES if not is_distributed(base)]
    single = [mutant for mutant in everything if not is_distributed(mutant)]
    bases = {base.name: found for base, found in zip(single_bases, run_single(single_bases), strict=True)}
    found = {(m.base, m.kind): f for m, f in zip(single, run_single(single), strict=True)}
    if available():
        rank_bases, rank_found = run_distributed()
        bases |= rank_bases
        found |= rank_found
    return bases, found


def run_distributed() -> tuple[dict[str, list[str]], dict[tuple[str, str], list[str]]]:
    bases = [base for base in BASES if is_distributed(base) and has_library(base)]
    several = [mutant for mutant in mutants() if is_distributed(mutant) and has_library(mutant)]
    jobs = [(source(base), base.entry, base.features) for base in bases]
    answers = differences_on_ranks(jobs + [(m.source, m.entry, m.features) for m in several])
    return (
        {base.name: answer for base, answer in zip(bases, answers, strict=False)},
        {(m.base, m.kind): answer for m, answer in zip(several, answers[len(bases) :], strict=True)},
    )
