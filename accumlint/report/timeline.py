"""A training loop's accumulation windows as a picture: on a terminal, and as one page of HTML.

All numbers are those of the trace at its first sample point: the worked example that messages use too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from itertools import takewhile

from accumlint.analysis import judge_module
from accumlint.contract.judge import Judged
from accumlint.contract.weights import Weighting, weigh
from accumlint.contract.windows import Window, cut_windows, site_key
from accumlint.reading.program import Module
from accumlint.reading.project import FOREIGN
from accumlint.reading.read import read_module
from accumlint.report.styled import Line, Piece, line, printable
from accumlint.semantics.trace import ADVANCE, BACKWARD, CLEAR, STEP, UPDATE, Event, Trace
from accumlint.source.text import SourceText

NAMES = {ADVANCE: "schedule", UPDATE: "scaler update"}
AFTER_STEP = (CLEAR, ADVANCE, UPDATE)
BAR = 24
CAPTION = (
    "Counts are an example (sample point 0 of the trace), not your data. gets: what one target's loss is multiplied by "
    "in the gradient that the step uses; should: 1 / (targets of the window), the full-batch mean; "
    "a loss that has a factor of its own keeps it; what an earlier window left should get 0."
)


@dataclass(frozen=True, slots=True)
class Share:
    """What each target of one microbatch gets, of one loss, and what it should get; None where it is not known."""

    microbatch: int  # from 1
    count: Fraction | None
    gets: Fraction | None
    should: Fraction | None

    @property
    def ratio(self) -> Fraction | None:
        return None if self.gets is None or not self.should else self.gets / self.should


@dataclass(frozen=True, slots=True)
class Loss:
    """One loss of a window: its text, how it is weighed, and a share for each microbatch."""

    text: str
    said: str
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happens to the gradient: after which microbatch (from 1), what, and where."""

    microbatch: int
    what: str
    place: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """One window."""

    title: str
    losses: tuple[Loss, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """One training loop: its windows, or why there are none."""

    name: str
    first_line: int
    steps: str = ""
    windows: tuple[Drawn, ...] = ()
    reason: str = ""


def timelines(source: SourceText, at_line: int | None = None) -> list[Timeline]:
    """All loops of a file, or those that hold a line. Raises ReadError for a text that is not Python."""
    module = read_module(source.text, source.filename)
    judged = judge_module(module)
    return [_timeline(source, module, each) for each in judged if at_line is None or _holds(module, each, at_line)]


def _holds(module: Module, judged: Judged, at_line: int) -> bool:
    region = judged.result.region.node
    traces = judged.result.default[:1]
    nodes = {region, *(n for trace in traces for n in (*trace.loops, *(e.node for e in trace.events)))}
    spans = (module.syntax.span(node) for node in nodes if 0 <= node < FOREIGN)
    return any(span.line <= at_line <= span.end_line for span in spans)


def _timeline(source: SourceText, module: Module, judged: Judged) -> Timeline:
    node = judged.result.region.node
    name = judged.result.region.name or "module"
    first = module.syntax.span(node).line if 0 <= node < FOREIGN else 1
    if judged.abstention is not None:
        return Timeline(name, first, reason=judged.abstention.reason)
    trace = judged.result.default[0]
    if trace.exempt:
        return Timeline(name, first, reason=trace.exempt)
    steps = "" if trace.steps is None else f"{trace.steps} accumulation steps ({trace.steps_text or 'as the code has'})"
    windows = tuple(drawn for store in trace.stores for drawn in _windows(source, module, trace, store))
    return Timeline(name, first, steps, windows)


def _windows(source: SourceText, module: Module, trace: Trace, store: str) -> Iterator[Drawn]:
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
        yield Drawn(_title(trace, window, number, store), losses, marks)


def _tail(events: Iterable[Event]) -> tuple[Event, ...]:
    return tuple(takewhile(lambda event: event.kind in AFTER_STEP, events))


def _title(trace: Trace, window: Window, number: int, store: str) -> str:
    numbers = [k + 1 for k in window.microbatches]
    which = ", ".join(map(str, numbers)) if numbers else "none"
    total = _total(trace, window)
    title = f"window {number + 1} of {store}: microbatches {which}"
    title += "" if total is None else f"; {show(total)} targets"
    if window.step is None:
        return f"{title}; left over: no step uses it"
    return title + ("; the data end in it" if window.at_end else "")


def _total(trace: Trace, window: Window) -> Fraction | None:
    total = Fraction(0)
    for k in window.microbatches:
        count = trace.counts[k].at[0]
        if count is None:
            return None
        total += count
    return total


def _loss(trace: Trace, window: Window, weighting: Weighting) -> Loss:
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
    what = NAMES.get(event.kind, event.kind) + (f" ({event.detail})" if event.detail else "")
    node = event.node if event.node < FOREIGN else trace.anchors.get(event.node, -1)
    if not 0 <= node < FOREIGN:
        return Mark(event.microbatch + 1, what, "")
    place = source.locate(module.syntax.span(node).line)
    cell = "" if place.cell is None else f"cell {place.cell} "
    return Mark(event.microbatch + 1, what, f"{cell}line {place.line}")


def show(value: Fraction | None) -> str:
    """A number as a reader would write it: exact while it is short."""
    if value is None:
        return "?"
    exact = str(value)
    return exact if len(exact) <= 9 else f"{float(value):.4g}"


def _part(value: Fraction | None, largest: Fraction) -> float:
    return 0.0 if value is None else float(abs(value) / largest)


def _ratio(share: Share) -> str:
    return "" if share.ratio is None else f"{show(share.ratio)}x"


def _largest(drawn: Drawn) -> Fraction:
    values = (abs(v) for loss in drawn.losses for share in loss.shares for v in (share.gets, share.should) if v)
    return max(values, default=Fraction(1))


def lines(timelines: Iterable[Timeline], filename: str) -> Iterator[Line]:
    """The picture for a terminal or a pipe."""
    for timeline in timelines:
        steps = f", {timeline.steps}" if timeline.steps else ""
        yield line(Piece(f"{filename}:{timeline.first_line}", "path"), f" {timeline.name}{steps}")
        if timeline.reason:
            yield line(f"  not drawn: {timeline.reason}")
        for drawn in timeline.windows:
            yield line()
            yield line("  ", Piece(drawn.title, "header"))
            for loss in drawn.losses:
                yield line("    ", Piece(loss.text, "code"), f": {loss.said}")
                yield line(Piece(f"      {'':5}{'targets':>9}{'gets':>11}{'should':>11}{'ratio':>11}", "gutter"))
                for share in loss.shares:
                    yield _row(share, _largest(drawn))
            yield line("    ", *_happens(drawn))
        yield line()
    yield line(CAPTION)


def _row(share: Share, largest: Fraction) -> Line:
    bar = "#" * round(_part(share.gets, largest) * BAR)
    style = "safe" if share.ratio == 1 else "mark"
    numbers = f"{show(share.count):>9}{show(share.gets):>11}{show(share.should):>11}{_ratio(share):>11}"
    return line(f"      k{share.microbatch:<4}{numbers}", "  " if bar else "", Piece(bar, style))


def _happens(drawn: Drawn) -> Iterator[Piece | str]:
    for number, mark in enumerate(drawn.marks):
        yield " -> " if number else ""
        what = f"k{mark.microbatch} {mark.what}" if mark.what == BACKWARD else mark.what
        yield Piece(what, "help" if mark.what != BACKWARD else "")
        yield f" [{mark.place}]" if mark.place and mark.what != BACKWARD else ""


STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--soft:#57606a;--line:#d0d7de;--right:#1a7f37;--wrong:#b3261e}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--soft:#9aa4af;--line:#30363d;--right:#4cc26a;
--wrong:#ff8078}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:44rem;font:16px/1.5 system-ui,sans-serif;color:var(--ink);
background:var(--paper);overflow-wrap:anywhere}
h1{font-size:1.3rem}h2{font-size:1.1rem;border-top:1px solid var(--line);padding-top:1rem}
h3{font-size:1rem;margin:1.2rem 0 0}p{margin:.3rem 0}code{font-family:ui-monospace,monospace}.soft{color:var(--soft)}
svg{display:block;width:100%;height:auto;margin:.4rem 0}
svg text{font:13px system-ui,sans-serif;fill:var(--ink)}.should{fill:none;stroke:var(--ink);stroke-dasharray:3 2}
.right{fill:var(--right)}.wrong{fill:var(--wrong)}
ol{list-style:none;padding:0;margin:.4rem 0;display:flex;flex-wrap:wrap;gap:.3rem}
li{border:1px solid var(--line);border-radius:.4rem;padding:0 .4rem;font-size:.85rem}li.step,li.clip{font-weight:bold}
"""
ROW, WIDTH = 44, 360


def page(timelines: Iterable[Timeline], filename: str) -> str:
    """One page that needs nothing else: no script, no font, no other file."""
    title = escape(printable(filename))
    body = "\n".join(_section(timeline, title) for timeline in timelines)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}: accumulation windows</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{title}: accumulation windows</h1>\n"
        f'<p class="soft">{escape(CAPTION)} Bars: gets; dashed frames: should.</p>\n{body}\n</body>\n</html>\n'
    )


def _section(timeline: Timeline, title: str) -> str:
    parts = [f"<h2>{_text(timeline.name)} <span class='soft'>{title}:{timeline.first_line}</span></h2>"]
    parts += [f"<p>{_text(timeline.steps)}</p>"] if timeline.steps else []
    parts += [f"<p>not drawn: {_text(timeline.reason)}</p>"] if timeline.reason else []
    for drawn in timeline.windows:
        parts.append(f"<h3>{_text(drawn.title)}</h3>")
        for loss in drawn.losses:
            parts.append(f"<p><code>{_text(loss.text)}</code>: {_text(loss.said)}</p>")
            parts.append(_svg(loss, _largest(drawn)))
        parts.append("<ol>" + "".join(_item(mark) for mark in drawn.marks) + "</ol>")
    return "<section>\n" + "\n".join(parts) + "\n</section>"


def _svg(loss: Loss, largest: Fraction) -> str:
    height = ROW * len(loss.shares)
    rows = "".join(_bar(share, index * ROW, largest) for index, share in enumerate(loss.shares))
    label = _text(f"{loss.text}: {loss.said}")
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{rows}</svg>'


def _bar(share: Share, top: int, largest: Fraction) -> str:
    def wide(value: Fraction | None) -> str:
        return f"{_part(value, largest) * (WIDTH - 4):.1f}"

    style = "right" if share.ratio == 1 else "wrong"
    ratio = f" ({_ratio(share)})" if share.ratio is not None else ""
    numbers = f"gets {show(share.gets)}, should {show(share.should)}{ratio}"
    said = f"k{share.microbatch}: {show(share.count)} targets; {numbers}"
    return (
        f'<g data-microbatch="{share.microbatch}" data-count="{share.count}" data-gets="{share.gets}" '
        f'data-should="{share.should}"><text x="1" y="{top + 15}">{_text(said)}</text>'
        f'<rect class="{style}" x="2" y="{top + 22}" width="{wide(share.gets)}" height="12"/>'
        f'<rect class="should" x="2" y="{top + 20}" width="{wide(share.should)}" height="16"/></g>'
    )


def _item(mark: Mark) -> str:
    place = f" <span class='soft'>{_text(mark.place)}</span>" if mark.place else ""
    kind = mark.what.split(" ")[0]
    kind = kind if kind in (STEP, "clip") else "other"
    return f'<li class="{kind}">k{mark.microbatch} {_text(mark.what)}{place}</li>'


def _text(text: str) -> str:
    return escape(printable(text))
