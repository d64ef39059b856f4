"""The invariants of every trace: a sound one passes, and each way to break one is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from loop_snippets import inside, results, script, trace

from accumlint.semantics.check import TraceError, check_trace
from accumlint.semantics.numbers import number
from accumlint.semantics.trace import BACKWARD, CLEAR, CLIP, SCALE, STEP, Event, Trace

LOOP = """
for i, (x, y) in enumerate(loader):
    F.cross_entropy(net(x), y).backward()
    if (i + 1) % 2 == 0:
        for p in net.parameters():
            p.grad /= 2
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
"""
CASES = sorted((Path(__file__).parents[1] / "cases" / "dev").glob("*.py"))


@pytest.mark.parametrize("wrap", [script, inside])
def test_a_sound_trace_passes(wrap: Callable[[str], str]) -> None:
    check_trace(trace(wrap(LOOP)))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_the_traces_of_all_cases_are_sound(case: Path) -> None:
    for result in results(case.read_text(encoding="utf-8")):
        for each in (*result.default, *(t for traces in result.flipped for t in traces)):
            check_trace(each)


def broken(kind: str, change: Callable[[Event], Event], which: int = 0) -> Trace:
    """The sound trace with one event of a kind changed."""
    run = trace(script(LOOP))
    place = [index for index, event in enumerate(run.events) if event.kind == kind][which]
    run.events[place] = change(run.events[place])
    return run


def halved(event: Event) -> Event:
    first = next(iter(event.gradient))
    return replace(event, gradient={**event.gradient, first: number(3)})


def fewer(event: Event) -> Event:
    return replace(event, gradient=dict(list(event.gradient.items())[1:]))


def alien(event: Event) -> Event:
    """A term of the other microbatch than the backward's own."""
    (site, _), *_rest = event.gradient
    return replace(event, gradient={**event.gradient, (replace(site), 1): number(1)})


def test_what_is_broken_names_the_place() -> None:
    with pytest.raises(TraceError, match=r"event 5 of .*region <script>") as caught:
        check_trace(broken(STEP, fewer))
    assert "backward SGD" in str(caught.value)


@pytest.mark.parametrize("kind", [STEP, CLIP, CLEAR])
@pytest.mark.parametrize("change", [halved, fewer, alien])
def test_a_step_a_clip_and_a_clear_change_nothing(kind: str, change: Callable[[Event], Event]) -> None:
    with pytest.raises(TraceError, match=f"a {kind} finds another gradient than was left"):
        check_trace(broken(kind, change))


def test_only_a_backward_adds_terms_and_only_its_own() -> None:
    with pytest.raises(TraceError, match="a scale adds or drops a term"):
        check_trace(broken(SCALE, alien))
    with pytest.raises(TraceError, match="a backward adds a term that is not its loss's"):
        check_trace(broken(BACKWARD, alien, which=1))
    with pytest.raises(TraceError, match="a backward drops a term"):
        check_trace(broken(BACKWARD, fewer, which=1))
    with pytest.raises(TraceError, match="a backward changes a term that is not its loss's"):
        check_trace(broken(BACKWARD, halved, which=1))
    with pytest.raises(TraceError, match="a backward without a loss"):
        check_trace(broken(BACKWARD, lambda event: replace(event, form=None), which=1))


def test_a_backward_adds_its_coefficient() -> None:
    def doubled(event: Event) -> Event:
        last = list(event.gradient)[-1]
        return replace(event, gradient={**event.gradient, last: number(2)})

    with pytest.raises(TraceError, match="another number than its loss's coefficient"):
        check_trace(broken(BACKWARD, doubled, which=1))


def test_a_scale_multiplies_by_what_it_says() -> None:
    with pytest.raises(TraceError, match="a scale multiplies by another number"):
        check_trace(broken(SCALE, lambda event: replace(event, by=number(3))))


def test_a_clear_leaves_nothing() -> None:
    run = trace(script(LOOP))
    clear = next(event for event in run.events if event.kind == CLEAR)
    place = run.events.index(clear)
    following = run.events[place + 1]
    run.events[place + 1] = replace(following, gradient={**clear.gradient, **following.gradient})
    with pytest.raises(TraceError, match="adds a term that is not its loss's"):
        check_trace(run)


def test_microbatches_have_counts() -> None:
    with pytest.raises(TraceError, match="microbatch 100 has no count"):
        check_trace(broken(STEP, lambda event: replace(event, microbatch=99)))
    run = trace(script(LOOP))
    run.counts.pop()
    with pytest.raises(TraceError, match="has no count"):
        check_trace(run)


def test_a_condition_is_decided_once() -> None:
    run = trace(
        inside(
            """
            for x, y in loader:
                F.cross_entropy(net(x), y).backward()
                if args.step:
                    opt.step()
                    opt.zero_grad()
            """
        )
    )
    assert run.decisions
    check_trace(run)
    run.decisions.append(run.decisions[0])
    with pytest.raises(TraceError, match="decided twice"):
        check_trace(run)


def test_microbatches_may_go_back_where_the_code_does() -> None:
    """A window that is walked backwards is no fault: its microbatches are numbered as the data arrived."""
    run = trace(
        inside(
            """
            it = iter(loader)
            for step in range(2):
                window = [next(it) for _ in range(2)]
                total = sum((y != -100).sum() for _, y in window)
                for x, y in window[::-1]:
                    (F.cross_entropy(net(x), y, reduction="sum") / total).backward()
                opt.step()
                opt.zero_grad()
            """
        )
    )
    check_trace(run)
    assert [event.microbatch for event in run.events if event.kind == BACKWARD] == [1, 0, 3, 2]
