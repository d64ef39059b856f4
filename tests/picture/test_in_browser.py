"""The pages in real headless Chromium: the drawn weights are those of the JSON, at desktop and phone width."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from browser import CHROMIUM, NO_CHROMIUM, measure

from accumlint.cli.main import run

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM), pytest.mark.xdist_group("browser")]
SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "token_loss_modulo.py"


@pytest.fixture(scope="module")
def explained(tmp_path_factory) -> tuple[str, list[dict]]:
    """The page and the numbers that `accumlint explain` writes for a sample with a repair."""
    folder = tmp_path_factory.mktemp("explained")
    html, numbers = folder / "out.html", folder / "out.json"
    assert run(["explain", str(SAMPLE), "--html", str(html), "--json", str(numbers), "--all"]) == 0
    return html.read_text(encoding="utf-8"), json.loads(numbers.read_text(encoding="utf-8"))


def shares(loops: list[dict], key: str) -> list[tuple[str, str, str, str]]:
    return [
        (str(share["microbatch"]), share["count"], share["gets"], share["should"])
        for loop in loops for window in loop[key] or () for loss in window["losses"] for share in loss["shares"]
    ]  # fmt: skip


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (390, False), (390, True)])
def test_the_drawn_weights_are_those_of_the_json(explained, tmp_path: Path, width: int, dark: bool) -> None:
    page, loops = explained
    seen = measure(page, tmp_path, width=width, dark=dark)
    for kind, key in (("original", "windows"), ("repaired", "repaired")):
        drawn = [bar for bar in seen["bars"] if bar["kind"] == kind]
        assert [(b["microbatch"], b["count"], b["gets"], b["should"]) for b in drawn] == shares(loops, key)
        for bar in drawn:
            ratio = Fraction(bar["gets"]) / Fraction(bar["should"])
            assert bar["getsWidth"] / bar["shouldWidth"] == pytest.approx(float(ratio), rel=0.03)
            assert bar["right"] is (ratio == 1)
            assert max(bar["getsWidth"], bar["shouldWidth"]) <= bar["track"] + 3  # the frame's own stroke
    assert {bar["right"] for bar in seen["bars"] if bar["kind"] == "repaired"} == {True}
    assert not all(bar["right"] for bar in seen["bars"] if bar["kind"] == "original")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390, 320], ids=["desktop", "phone", "small phone"])
def test_it_is_readable(explained, tmp_path: Path, width: int, dark: bool) -> None:
    seen = measure(explained[0], tmp_path, width=width, dark=dark)
    assert seen["width"] == width
    assert seen["needed"] <= width  # nothing is cut off or scrolls sideways
    assert seen["contrast"] >= 4.5
    assert seen["smallest"] >= 11
    assert (sum(seen["ground"][:3]) < 150) is dark
    assert seen["requests"] == 0
    columns = {bar["left"] for bar in seen["bars"]}
    assert len(columns) == (2 if width == 1200 else 1)  # beside each other, or one below the other


def test_a_report_of_accumcheck(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import torch

    from accumlint.harness import accumcheck
    from accumlint.harness.toys import Toy, classification_toy

    toy = classification_toy()

    def loop(divisor):
        def train(model, microbatches, optimizer):
            for start in range(0, len(microbatches), 3):
                window = microbatches[start : start + 3]
                for microbatch in window:
                    (Toy.loss_sum(model, microbatch) / divisor(microbatch, window)).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
                optimizer.step()
                optimizer.zero_grad()

        return train

    def check(divisor):
        return accumcheck(loop(divisor), toy.model, toy.microbatches, loss_sum=Toy.loss_sum, count=Toy.count)

    wrong = check(lambda microbatch, window: 3 * max(Toy.count(microbatch), 1))
    right = check(lambda microbatch, window: sum(map(Toy.count, window)))
    wrong.save(tmp_path / "report.html", title="<my> loop", repaired=right)
    wrong.save(tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    seen = measure((tmp_path / "report.html").read_text(encoding="utf-8"), tmp_path, width=390)
    assert seen["needed"] <= 390
    drawn = [bar for bar in seen["bars"] if bar["kind"] == "original"]
    weights = {
        k: (weight, belongs)
        for window in data["windows"]
        for k, weight, belongs in zip(window["microbatches"], window["weights"], window["expected"], strict=True)
    }
    assert {bar["microbatch"] for bar in drawn} <= {str(k) for k in weights}
    assert len(drawn) == 4  # the second window looks like the first
    for bar in drawn:
        weight, belongs = weights[int(bar["microbatch"])]
        if weight is None:
            assert bar["getsWidth"] == 0
            continue
        assert float(bar["gets"]) * float(bar["count"]) == pytest.approx(weight)
        assert bar["getsWidth"] / bar["shouldWidth"] == pytest.approx(weight / belongs, rel=0.03)
    repaired = [bar for bar in seen["bars"] if bar["kind"] == "repaired" and float(bar["count"])]
    assert repaired
    assert all(bar["right"] for bar in repaired)
