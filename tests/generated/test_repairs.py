"""Every repair of a generated program is executed against the full batch: bounded here, as many as wanted on demand.

`python -m tests.generated --seeds A:B --repairs --confirm [--strategy S]` does the same for any number of programs.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.generated.compare import Answer, Tally, ask_in_process, check_repairs
from tests.generated.generate import generate

pytest.importorskip("torch")

ONCE_UNPROVED = {
    10: "a plain sum that is divided nowhere",
    25: "a criterion that is passed in, divided by K",
    34: "a plain sum, clipped while scaled",
    39: "a sum of class-weighted losses, stepped in a helper",
    45: "the mean of an empty mask, as the author wrote it",
}
ONCE_REFUSED = {
    17: "a helper steps in the loop and once more behind it",
    18: "a `while True` loop over next() drops its last window",
    38: "a nested helper steps an optimizer of the function around it",
    50: "the target is masked in the loss's helper",
    107: "the clip moves before a helper that steps with a scaler",
    126: "a nested helper clips and steps, nothing clears",
    151: "the loss's method divides by K",
    191: "the loss's helper divides a masked mean by K",
    2074: "kl_div over rows: a batch of numbers holds no distributions",
    267: "a `while True` loop flushes with its counter",
}
ONCE_BROKEN = {
    160: "the count was reset where a misplaced clear had stood",
    2021: "the count is reset behind a clear that stands right before the loss",
    166: "the step moved into a loop that clears each parameter",
}


def repairs_of(seed: int, strategy: str, *, confirm: bool) -> tuple[Answer, Tally]:
    program, tally = generate(seed), Tally()
    answer = ask_in_process(program, repair=True, confirm=confirm, strategy=strategy)
    assert not check_repairs(program, answer, tally), seed
    return answer, tally


@pytest.mark.parametrize("strategy", ["auto", "precount"])
@pytest.mark.filterwarnings("ignore:Detected call of")
def test_every_repair_equals_the_full_batch_and_a_second_pass_changes_nothing(strategy: str) -> None:
    levels: Counter[str] = Counter()
    for seed in range(1000, 1040):
        _, tally = repairs_of(seed, strategy, confirm=False)
        levels.update(tally.repairs)
    assert levels["unsafe/proved: equal"] >= 14, levels


@pytest.mark.parametrize("seed", [*ONCE_UNPROVED, *ONCE_REFUSED])
@pytest.mark.filterwarnings("ignore:Detected call of")
def test_what_was_refused_or_unproved_is_safe_now(seed: int) -> None:
    answer, _ = repairs_of(seed, "auto", confirm=True)
    assert [level.partition("/")[0] for level, _ in answer.repaired] == ["safe"]
    assert not answer.unrepaired


@pytest.mark.parametrize("seed", ONCE_BROKEN)
@pytest.mark.filterwarnings("ignore:Detected call of")
def test_what_was_written_wrongly_once_is_right(seed: int) -> None:
    answer, _ = repairs_of(seed, "auto", confirm=False)
    assert answer.repaired
