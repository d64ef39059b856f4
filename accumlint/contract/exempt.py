"""Sums of losses that are meant: one sequence in parts, and one loss a task."""

from __future__ import annotations

import re

from accumlint.contract.windows import Window, site_key
from accumlint.semantics.trace import Trace
from accumlint.semantics.values import Site

_TASKS = re.compile(r"\.(items|values|keys)\(\)$")


def is_summed_on_purpose(trace: Trace, window: Window, site: Site) -> bool:
    """Whether the parts of a window add up to one objective without a division: time steps, or tasks."""
    return _carries_state(window, site) or _is_over_tasks(trace, window)


def _carries_state(window: Window, site: Site) -> bool:
    """Truncated backpropagation through time: a part is computed from what an earlier part of the window left."""
    lineages = [each.lineage for each, _ in window.gradient if site_key(each) == site_key(site) and each.lineage]
    arrivals = {max(lineage) for lineage in lineages}
    return any(arrivals & lineage != {max(lineage)} for lineage in lineages)


def _is_over_tasks(trace: Trace, window: Window) -> bool:
    """A loop over a dictionary, or over several streams of which each gives one batch: a sum over tasks."""
    kinds = {kind for k in window.microbatches for kind in trace.lineages.get(k, ())}
    return "next of an element" in kinds or any(_TASKS.search(kind) for kind in kinds)
