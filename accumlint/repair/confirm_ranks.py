"""The part of a certificate that needs several ranks: gloo processes run the repaired loop on unequal counts."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from accumlint.apis.registry import load
from accumlint.contract.judge import Judged
from accumlint.harness.rank_runner import RankRunner
from accumlint.reading.program import Module
from accumlint.reading.project import project_of
from accumlint.repair.certificate import Check, Measure
from accumlint.repair.prove_weights import original_factors
from accumlint.repair.rank_slices import execute_on_ranks
from accumlint.repair.slices import LIMIT, Executed
from accumlint.semantics.run import Path, Result, analyse

_runners: dict[int, RankRunner] = {}  # by process: a forked one must not talk to its parent's


@dataclass(frozen=True, slots=True)
class OnRanks:
    """What running on ranks established: a measure, or what is missing in one line."""

    measure: Measure | None = None
    missing: str = ""
    differs: bool = False  # torch computed it and it is not the full batch


def shared_ranks() -> RankRunner:
    """The workers of this process: they are started once, for all repairs of all files."""
    process = os.getpid()
    if process not in _runners:
        _runners[process] = RankRunner(timeout=30.0)
        atexit.register(_runners[process].close)
    return _runners[process]


def confirm_on_ranks(
    before: Module, after: Module, changed: Sequence[tuple[Judged | None, Judged]], *, equal: bool
) -> OnRanks:
    """Run every changed loop on two ranks."""
    names = {new.result.region.name for _, new in changed}
    repaired, original = _paired(after, names), _paired(before, names)
    if names - repaired.keys():
        return OnRanks(missing="the loop is not read again for two ranks")
    ranks = shared_ranks()
    runs: list[Executed] = []
    for name, result in repaired.items():
        was = averaged_path(original[name]) if name in original and not original[name].stopped else []
        factors = [Fraction(1) if factor is None else factor for factor in original_factors(was)]
        for place, trace in enumerate(averaged_path(result)):
            if trace.stopped or trace.exempt or not trace.events:
                return OnRanks(missing=f"not analysed: {trace.stopped or trace.exempt}")
            beside = was[place] if place < len(was) else None
            runs += execute_on_ranks(trace, beside, ranks, factors, equal=equal)
            if not runs[-1].holds:
                break
    bad = next((run for run in runs if not run.holds), None)
    if bad is not None:
        said = bad.problem or f"relative L2 error {max(bad.error, bad.worst):.1e}"
        return OnRanks(missing=said, differs=not bad.problem or "steps for" in bad.problem)
    worst = max(runs, key=lambda run: run.error)
    originals = [run.original_error for run in runs if run.original_error is not None]
    differs = max(originals, default=None)
    engine = f"torch {ranks.torch_version}, gloo, {ranks.world_size} ranks"
    return OnRanks(Measure(Check.ON_RANKS, worst.error, LIMIT, differs, worst.counts, worst.seed, engine))


def _paired(module: Module, names: set[str]) -> dict[str, Result]:
    for thorough in (False, True):  # the model may be wrapped on a path that is not the default one
        found = analyse(module, load(), project_of(module.filename), paired=True, thorough=thorough)
        if any(trace.averages for result in found for trace in averaged_path(result)):
            break
    return {result.region.name: result for result in found if result.region.name in names}


def averaged_path(result: Result) -> Path:
    """The path on which something averages over ranks: the default one, or a flipped one; else the default one."""
    paths = [result.default, *result.flipped]
    return next((traces for traces in paths if any(trace.averages for trace in traces)), result.default)
