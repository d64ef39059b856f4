"""Gradient slices on two ranks: the repaired loop with gloo, against the full batch over both.

The traces come from a run of two ranks (`analyse(..., paired=True)`): neighbouring sample points are what the ranks
count, so that they count differently, one of them has a microbatch without a target and the other a whole window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

from accumlint.harness.rank_runner import RankRunner
from accumlint.harness.runner import Job, Result, Status
from accumlint.repair.prove_windows import cut_segments, meant_windows
from accumlint.repair.slices import (
    EQUAL,
    SEED,
    Executed,
    NotExecutableError,
    clip_kind,
    counts_at,
    engine_text,
    read_errors,
    sites_of,
    statements,
    window_counts,
)
from accumlint.semantics.trace import Trace

PAIRS = ((0, 1), (2, 3))


@cache
def _engine_text() -> str:
    text = Path(__file__).with_name("rank_engine.py").read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if not line.startswith("from ")]
    return "\n".join([engine_text(), *kept])


def execute_on_ranks(
    trace: Trace,
    original: Trace | None,
    ranks: RankRunner,
    factors: Sequence[Fraction] = (),
    *,
    equal: bool = False,
) -> list[Executed]:
    """Run a trace of a paired run on both ranks, once for each pair of points; the original beside it."""
    pairs = ((EQUAL, EQUAL),) if equal else PAIRS
    return [_execute_pair(trace, original, pair, ranks, factors) for pair in pairs]


def _execute_pair(
    trace: Trace, original: Trace | None, pair: tuple[int, int], ranks: RankRunner, factors: Sequence[Fraction]
) -> Executed:
    seed = SEED + 100 + pair[0]
    counts = tuple(each for point in pair for each in window_counts(trace, point))
    try:
        source = rank_program(trace, pair, seed, factors, "repaired")
    except NotExecutableError as problem:
        return Executed(math.inf, math.inf, None, counts, seed, str(problem))
    results = ranks.run(Job(f"ranks {pair}", source, seed=seed))
    if said := _problem(results):
        return Executed(math.inf, math.inf, None, counts, seed, said)
    found = {f"repaired {rank} {name}": v for rank, r in enumerate(results) for name, v in r.value.items()}
    found |= _of_original(original, pair, seed, ranks, factors)
    return read_errors(found, counts, seed)


def _of_original(
    original: Trace | None, pair: tuple[int, int], seed: int, ranks: RankRunner, factors: Sequence[Fraction]
) -> dict[str, dict[str, float]]:
    if original is None:
        return {}
    try:
        source = rank_program(original, pair, seed, factors, "original")
    except NotExecutableError:
        return {}
    results = ranks.run(Job(f"original on ranks {pair}", source, seed=seed))
    if _problem(results):
        return {}
    return {f"original {rank} {name}": v for rank, r in enumerate(results) for name, v in r.value.items()}


def _problem(results: Sequence[Result]) -> str:
    bad = next((result for result in results if not result.ok), None)
    if bad is None:
        return ""
    if bad.status is Status.NO_GROUP:
        return f"gloo is not available ({bad.error})"
    reason = bad.error if bad.status is not Status.RAISED else f"{bad.error_type}: {bad.error}"
    return f"{bad.status.value}: {reason}"


def rank_program(trace: Trace, pair: tuple[int, int], seed: int, factors: Sequence[Fraction], name: str) -> str:
    """The text of one program for both ranks; `run(torch, rank)` returns this rank's errors.

    Raises NotExecutableError for an undefined coefficient.
    """
    lines = [_engine_text(), "", "def run(torch, rank):", "    found = {}"]
    for store in trace.stores:
        sites = sites_of(trace, store)
        weights = [
            float(factors[place]) if place < len(factors) else 1.0 for place in range(max(len(set(sites.values())), 1))
        ]
        counts = [counts_at(trace, point) for point in pair]
        windows = meant_windows(trace, cut_segments(trace, store))
        clip = clip_kind(trace, store)
        lines.append(f"    counts = {counts}")
        lines.append(f"    s = RankSlice(torch, counts[rank], {len(weights)}, {seed}, rank, {trace.sums_ranks})")
        for rank, point in enumerate(pair):
            lines.append(f"    if rank == {rank}:")
            lines += [f"        {line}" for line in statements(trace, store, point, sites) or ["pass"]]
        lines.append(f"    wanted = slice_full_batch(torch, counts, {weights}, {seed}, {windows}, {clip!r})")
        lines.append(f"    found[{store!r}] = slice_compare(s, wanted)")
    lines.append("    return found")
    return "\n".join(lines) + "\n"
