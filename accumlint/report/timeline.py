"""A training loop's accumulation windows, read off its trace, and their picture on a terminal.

All numbers are those of the trace at its first sample point: the worked example that messages use too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import takewhile

from accumlint.analysis import judge_module
from accumlint.contract.judge import Judged
from accumlint.contract.weights import Weighting, weigh
from accumlint.contract.windows import Window as Cut
from accumlint.contract.windows import cut_windows, site_key
from accumlint.picture.model import Loop, Loss, Mark, Share, Window, largest, like_above, part, show
from accumlint.reading.contracts import LossContract
from accumlint.reading.program import Module
from accumlint.reading.project import FOREIGN
from accumlint.reading.read import read_module
from accumlint.report.styled import Line, Piece, line
from accumlint.semantics.trace import ADVANCE, BACKWARD, CLEAR, SCALE, UPDATE, Event, Trace
from accumlint.source.text import SourceText

NAMES = {ADVANCE: "schedule", UPDATE: "scaler update"}
AFTER_STEP = (CLEAR, ADVANCE, UPDATE)
BAR, HALF_BAR = 24, 12
CAPTION = (
    "Counts are an example (sample point 0 of the trace), not your data. gets: what one target's loss is multiplied by "
    "in the gradient that the step uses; should: 1 / (targets of the window), the full-batch mean; "
    "a loss that has a factor of its own keeps it; what an earlier window left should get 0."
)


def read_loops(
    source: SourceText,
    at_line: int | None = None,
    repaired: SourceText | None = None,
    contracts: tuple[LossContract, ...] = (),
) -> list[Loop]:
    """All loops of a file, or those that hold a line; with the windows of the repaired text beside them.

    Raises ReadError for a text that is not Python.
    """
    found = _read(source, contracts)
    after = _read(repaired, contracts) if repaired is not None else []
    is_same = [loop.name for _, _, loop in found] == [loop.name for _, _, loop in after]
    loops = []
    for index, (module, judged, loop) in enumerate(found):
        mate = after[index][2] if is_same else None
        if at_line is not None and not _holds(module, judged, at_line):
            continue
        is_changed = mate is not None and not mate.reason and _drawn(mate) != _drawn(loop)
        loops.append(replace(loop, repaired=mate.windows) if is_changed and mate is not None else loop)
    return loops


def _drawn(loop: Loop) -> list[object]:
    """What of a loop's windows a repair may change: all but the lines."""
    return [(w.numbers, w.losses, [(m.microbatch, m.what) for m in w.marks]) for w in loop.windows]


def _read(source: SourceText, contracts: tuple[LossContract, ...]) -> list[tuple[Module, Judged, Loop]]:
    module = read_module(source.text, source.filename, contracts=contracts)
    return [(module, judged, _loop(source, module, judged)) for judged in judge_module(module)]


def _loop(source: SourceText, module: Module, judged: Judged) -> Loop:
    node = judged.result.region.node
    name = judged.result.region.name or "module"
    place = f"line {module.syntax.span(node).line if 0 <= node < FOREIGN else 1}"
    if judged.abstention is not None:
        return Loop(name, place, reason=judged.abstention.reason)
    trace = judged.result.default[0]
    if trace.exempt:
        return Loop(name, place, reason=trace.exempt)
    known = "" if trace.steps_text == str(trace.steps) else f" ({trace.steps_text or 'as the code has'})"
    steps = "" if trace.steps is None else f"{trace.steps} accumulation steps{known}"
    labels = _labels(trace.stores)
    windows = tuple(w for store in trace.stores for w in _windows(source, module, trace, store, labels[store]))
    return Loop(name, place, steps, windows)


def _labels(stores: Iterable[str]) -> dict[str, str]:
    """What tells the optimizers apart in a title: nothing if there is one, its class, its place among equals."""
    names = {store: store.partition("@")[0] for store in stores}
    if len(names) == 1:
        return dict.fromkeys(names, "")
    often = Counter(names.values())
    seen: Counter[str] = Counter()
    labels = {}
    for store, name in names.items():
        seen[name] += 1
        labels[store] = f" of {name}" + (f" {seen[name]}" if often[name] > 1 else "")
    return labels


def _holds(module: Module, judged: Judged, at_line: int) -> bool:
    region = judged.result.region.node
    traces = judged.result.default[:1]
    nodes = {region, *(n for trace in traces for n in (*trace.loops, *(e.node for e in trace.events)))}
    spans = (module.syntax.span(node) for node in nodes if 0 <= node < FOREIGN)
    return any(span.line <= at_line <= span.end_line for span in spans)


def _windows(source: SourceText, module: Module, trace: Trace, store: str, label: str) -> Iterator[Window]:
    windows = cut_windows(trace, store)
    events = trace.of_store(store)
    done = 0
    for number, window in enumerate(windows):
        done += len(window.events)
        own = window.events
        if number:  # what follows a step belongs to the window of that step
            own = own[len(_tail(own)) :]
        following = _tail(events[done:]) if window.step is not None else ()
        marks = tuple(_mark(source, module, trace, event) for event in (*own, *following))
        losses = tuple(_loss(trace, window, weighting) for weighting in weigh(trace, window))
        numbers = tuple(k + 1 for k in window.microbatches)
        yield Window(_title(trace, window, number, label), numbers, losses, marks, label, window.step is not None)


def _tail(events: Iterable[Event]) -> tuple[Event, ...]:
    return tuple(takewhile(lambda event: event.kind in AFTER_STEP, events))


def _title(trace: Trace, window: Cut, number: int, label: str) -> str:
    numbers = [k + 1 for k in window.microbatches]
    which = _range(numbers)
    total = _total(trace, window)
    title = f"window {number + 1}{label}: microbatch{'es' if len(numbers) != 1 else ''} {which}"
    title += "" if total is None else f"; {show(total)} target{'' if total == 1 else 's'}"
    if window.step is None:
        return f"{title}; left over: no step uses it"
    return title + ("; the data end in it" if window.at_end else "")


def _range(numbers: list[int]) -> str:
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}-{numbers[-1]}"
    return ", ".join(map(str, numbers)) if numbers else "none"


def _total(trace: Trace, window: Cut) -> Fraction | None:
    total = Fraction(0)
    for k in window.microbatches:
        count = trace.counts[k].at[0]
        if count is None:
            return None
        total += count
    return total


def _loss(trace: Trace, window: Cut, weighting: Weighting) -> Loss:
    key = site_key(weighting.site)
    total = _total(trace, window)
    shares: list[Share] = []
    stale = {m for site, m in window.gradient if site_key(site) == key} - set(window.microbatches)
    for k in (*sorted(stale), *window.microbatches):  # what an earlier window left should have no weight in this one
        count = trace.counts[k].at[0]
        values = [c.at[0] for (site, m), c in window.gradient.items() if m == k and site_key(site) == key]
        coefficient = Fraction(0)
        known = True
        for value in values:
            known = known and value is not None
            coefficient += value or 0
        if known and weighting.site.reduction != "sum":
            known = bool(count)
            coefficient = coefficient / count if count else coefficient
        should = Fraction(0) if k in stale else 1 / total if total else None
        shares.append(Share(k + 1, count, coefficient if known else None, should))
    return Loss(weighting.site.text or "loss", _said(weighting), tuple(shares))


def _said(weighting: Weighting) -> str:
    if weighting.shape == "equal" and weighting.weight is not None:
        said = f"each microbatch's mean times {show(weighting.weight)}, whatever its count"
    elif weighting.shape == "right" and weighting.factor is not None:
        said = f"every target the same: {show(weighting.factor)} times the full-batch mean"
    else:
        said = "no common factor"
    said += "" if weighting.known else "; the reduction was not seen, a mean is assumed"
    return said + ("; summed over ranks" if weighting.reduced else "")


def _mark(source: SourceText, module: Module, trace: Trace, event: Event) -> Mark:
    detail = event.detail.partition("@")[0]  # the rest is the interpreter's own number of the object
    what = NAMES.get(event.kind, event.kind) + (f" ({detail})" if detail else "")
    if event.kind == SCALE and event.by is not None and event.by.at[0] is not None:
        what = f"{'divide' if event.detail == '/' else 'scale'} by {show(event.by.at[0])}"
    node = event.node if event.node < FOREIGN else trace.anchors.get(event.node, -1)
    if not 0 <= node < FOREIGN:
        return Mark(event.microbatch + 1, what, "")
    place = source.locate(module.syntax.span(node).line)
    cell = "" if place.cell is None else f"cell {place.cell} "
    return Mark(event.microbatch + 1, what, f"{cell}line {place.line}")


def lines(loops: Iterable[Loop], filename: str, everything: bool = False) -> Iterator[Line]:
    """The picture for a terminal or a pipe; windows that look like earlier ones are counted unless all are wanted."""
    for loop in loops:
        about = f", {loop.about}" if loop.about else ""
        yield line(Piece(f"{filename}:{loop.place.removeprefix('line ')}", "path"), f" {loop.name}{about}")
        if loop.reason:
            yield line(f"  not drawn: {loop.reason}")
        for row in loop.rows(everything):
            yield line()
            if isinstance(row, int):
                yield line("  ", Piece(f"{like_above(row)} (--all draws them)", "gutter"))
            else:
                yield from _pair(*row, loop.repaired is not None)
        yield line()
    yield line(CAPTION)


def _pair(left: Window | None, right: Window | None, is_repaired: bool) -> Iterator[Line]:
    """A window, with the repaired one beside it if it has the same microbatches and losses, else below."""
    scale = largest(left, right)
    is_beside = left is not None and right is not None and _keys(left) == _keys(right)
    if left is not None:
        yield from _window(left, right if is_beside else None, scale, "")
    if right is not None and not is_beside:
        yield from _window(right, None, scale, "repaired: ")
    elif is_repaired and right is None:
        yield line("  ", Piece("repaired: no window starts here", "header"))


def _keys(window: Window) -> list[list[int]]:
    return [[share.microbatch for share in loss.shares] for loss in window.losses]


def _window(window: Window, beside: Window | None, scale: float, prefix: str) -> Iterator[Line]:
    yield line("  ", Piece(prefix + window.title, "header"))
    for index, loss in enumerate(window.losses):
        other = beside.losses[index] if beside is not None else None
        yield line("    ", Piece(loss.text, "code"), f": {loss.said}")
        if other is not None:
            yield line("    repaired ", Piece(other.text, "code"), f": {other.said}")
        head = f"      {'':5}{'targets':>9}{'gets':>11}{'should':>11}{'ratio':>11}"
        yield line(Piece(head + (f"  {'':{HALF_BAR}}{'repaired':>11}{'ratio':>11}" if other else ""), "gutter"))
        for place, share in enumerate(loss.shares):
            yield _row(share, other.shares[place] if other else None, scale)
    yield line("    ", *_happens(window))
    if beside is not None:
        yield line("    repaired: ", *_happens(beside))


def _row(share: Share, repaired: Share | None, scale: float) -> Line:
    numbers = f"{show(share.count):>9}{show(share.gets):>11}{show(share.should):>11}{_ratio(share):>11}"
    pieces: list[Piece | str] = [f"      k{share.microbatch:<4}{numbers}"]
    pieces += _bar(share, scale, HALF_BAR if repaired else BAR, pad=repaired is not None)
    if repaired is not None:
        pieces += [f"{show(repaired.gets):>11}{_ratio(repaired):>11}", *_bar(repaired, scale, HALF_BAR, pad=False)]
    return line(*pieces)


def _bar(share: Share, scale: float, full: int, *, pad: bool) -> list[Piece | str]:
    bar = "#" * round(part(share.gets, scale) * full)
    drawn: list[Piece | str] = ["  ", Piece(bar, "safe" if share.ratio == 1 else "mark")] if bar else []
    return [*drawn, " " * (full + 2 - (len(bar) + 2 if bar else 0))] if pad else drawn


def _ratio(share: Share) -> str:
    return "" if share.ratio is None else f"{show(share.ratio)}x"


def _happens(window: Window) -> Iterator[Piece | str]:
    for number, mark in enumerate(window.marks):
        yield " -> " if number else ""
        what = f"k{mark.microbatch} {mark.what}" if mark.what == BACKWARD else mark.what
        yield Piece(what, "help" if mark.what != BACKWARD else "")
        yield f" [{mark.place}]" if mark.place and mark.what != BACKWARD else ""
