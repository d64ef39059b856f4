"""Right (loss, count) pairs hold; every wrong count that the field uses is rejected."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from accumlint.harness.leaf import Leaf, LeafPair, check_pair
from accumlint.harness.runner import Runner

pytestmark = pytest.mark.xdist_group("runner")

HEAD = "import torch\nimport torch.nn.functional as F\n"
TOKENS = (Leaf("x", "logits", ("B", "T", "C")), Leaf("y", "class_targets", ("B", "T"), ignore_index=-100))
ROWS = (Leaf("x", "logits", ("B", "C")), Leaf("y", "class_targets", ("B",), ignore_index=-100))
WEIGHTED = (*ROWS, Leaf("w", "class_weights", ("C",)))
MASKED = (Leaf("t", "token_losses", ("B", "T")), Leaf("m", "mask", ("B", "T"), dtype="float64"))


@pytest.fixture(scope="module")
def runner():
    with Runner(timeout=30) as shared:
        yield shared


def pair(leaves, mean: str, total: str | None, count: str, before: str = "") -> LeafPair:
    names = ", ".join(leaf.name for leaf in leaves)
    text = HEAD + before
    for name, body in (("mean_loss", mean), ("sum_loss", total), ("count", count)):
        if body is not None:
            text += f"def {name}({names}):\n    return {body}\n"
    return LeafPair(text, tuple(leaves), sum="sum_loss" if total else None)


def ce(reduction: str, extra: str = "") -> str:
    return f"F.cross_entropy(x.reshape(-1, x.size(-1)), y.reshape(-1), reduction={reduction!r}{extra})"


def shifted(reduction: str) -> str:
    return f"F.cross_entropy(x[:, :-1].reshape(-1, 5), y[:, 1:].reshape(-1), reduction={reduction!r})"


CTC = (
    Leaf("x", "log_probabilities", (12, "B", "C")),
    Leaf("y", "class_targets", ("B", 4), first_class=1),
    Leaf("a", "lengths", ("B",), shortest=10, longest=12),
    Leaf("b", "lengths", ("B",), shortest=1, longest=4),
)
CTC_NONE = "F.ctc_loss(x, y, a, b, reduction='none')"

RIGHT = {
    "tokens": pair(TOKENS, ce("mean"), ce("sum"), "(y != -100).sum()"),
    "rows": pair(ROWS, ce("mean"), ce("sum"), "int((y != -100).sum())"),
    "mean weighted, no sum": pair(TOKENS, ce("mean"), None, "(y != -100).sum()"),
    "shifted": pair(TOKENS, shifted("mean"), shifted("sum"), "(y[..., 1:] != -100).sum()"),
    "smoothed": pair(
        TOKENS, ce("mean", ", label_smoothing=0.1"), ce("sum", ", label_smoothing=0.1"), "(y != -100).sum()"
    ),
    "shared parameter": pair(
        (Leaf("v", "values", ("D",)), Leaf("x", "float_targets", ("B", "D"))),
        "((v * x).tanh() ** 2).mean()", "((v * x).tanh() ** 2).sum()", "x.numel()",
    ),
    "class weights": pair(WEIGHTED, ce("mean", ", weight=w"), ce("sum", ", weight=w"), "w[y[y != -100]].sum()"),
    "mask": pair(MASKED, "(t * m).sum() / m.sum()", "(t * m).sum()", "m.sum()"),
    "mask, clamped": pair(MASKED, "(t * m).sum() / m.sum().clamp(min=1)", "(t * m).sum()", "m.sum()"),
    "mse": pair(
        (Leaf("x", "values", ("B", "D")), Leaf("y", "float_targets", ("B", "D"))),
        "F.mse_loss(x, y)", "F.mse_loss(x, y, reduction='sum')", "y.numel()",
    ),
    "bce": pair(
        (Leaf("x", "logits", ("B", "D")), Leaf("y", "binary_targets", ("B", "D"))),
        "F.binary_cross_entropy_with_logits(x, y)",
        "F.binary_cross_entropy_with_logits(x, y, reduction='sum')", "y.numel()",
    ),
    "batchmean": pair(
        (Leaf("x", "log_probabilities", ("B", "T", "C")), Leaf("y", "probabilities", ("B", "T", "C"))),
        "F.kl_div(x, y, reduction='batchmean')", "F.kl_div(x, y, reduction='sum')", "x.size(0)",
    ),
    "ctc": pair(CTC, "F.ctc_loss(x, y, a, b)", f"({CTC_NONE} / b.clamp(min=1)).sum()", "b.numel()"),
    "images": pair(
        (Leaf("x", "logits", ("B", "C", "T", "D")), Leaf("y", "class_targets", ("B", "T", "D"), ignore_index=255)),
        "F.cross_entropy(x, y, ignore_index=255)",
        "F.cross_entropy(x, y, ignore_index=255, reduction='sum')", "(y != 255).sum()",
    ),
    "pad id 0": pair(
        (Leaf("x", "logits", ("B", "C")), Leaf("y", "class_targets", ("B",), ignore_index=0, first_class=1)),
        ce("mean", ", ignore_index=0"), ce("sum", ", ignore_index=0"), "(y != 0).sum()",
    ),
    "fp32 upcast": pair(
        ROWS, "F.cross_entropy(x.float(), y)", "F.cross_entropy(x.float(), y, reduction='sum')", "(y != -100).sum()"
    ),
}  # fmt: skip

WRONG = {
    "numel with padding": pair(TOKENS, ce("mean"), ce("sum"), "y.numel()"),
    "numel, no sum": pair(TOKENS, ce("mean"), None, "y.numel()"),
    "size(0)": pair(TOKENS, ce("mean"), ce("sum"), "y.size(0)"),
    "size(0), no sum": pair(TOKENS, ce("mean"), None, "y.size(0)"),
    "unshifted": pair(TOKENS, shifted("mean"), shifted("sum"), "(y != -100).sum()"),
    "unshifted, no sum": pair(TOKENS, shifted("mean"), None, "(y != -100).sum()"),
    "wrong ignore index": pair(TOKENS, ce("mean"), ce("sum"), "(y != 0).sum()"),
    "wrong mask": pair(
        (*MASKED, Leaf("o", "mask", ("B", "T"), dtype="float64")),
        "(t * m).sum() / m.sum()", "(t * m).sum()", "o.sum()",
    ),
    "plain count under class weights": pair(
        WEIGHTED, ce("mean", ", weight=w"), ce("sum", ", weight=w"), "(y != -100).sum()"
    ),
    "clamped weight sum": pair(
        WEIGHTED, ce("mean", ", weight=w * 0.2"), ce("sum", ", weight=w * 0.2"),
        "(w * 0.2)[y[y != -100]].sum().clamp(min=1)",
    ),
    "weights without ignored": pair(
        WEIGHTED, ce("mean", ", weight=w"), ce("sum", ", weight=w"), "w[y.clamp(min=0)].sum()"
    ),
    "ctc sum": pair(CTC, "F.ctc_loss(x, y, a, b)", "F.ctc_loss(x, y, a, b, reduction='sum')", "b.numel()"),
    "ctc lengths": pair(CTC, "F.ctc_loss(x, y, a, b)", f"{CTC_NONE}.sum()", "b.sum()"),
    "batchmean by numel": pair(
        (Leaf("x", "log_probabilities", ("B", "T", "C")), Leaf("y", "probabilities", ("B", "T", "C"))),
        "F.kl_div(x, y, reduction='batchmean')", "F.kl_div(x, y, reduction='sum')", "x.numel()",
    ),
    "mse by rows": pair(
        (Leaf("x", "values", ("B", "D")), Leaf("y", "float_targets", ("B", "D"))),
        "F.mse_loss(x, y)", "F.mse_loss(x, y, reduction='sum')", "y.size(0)",
    ),
    "sum without smoothing": pair(
        TOKENS, ce("mean", ", label_smoothing=0.1"), ce("sum"), "(y != -100).sum()"
    ),
    "in-batch negatives": pair(
        (Leaf("x", "values", ("B", "D")),),
        "F.cross_entropy(x @ x.T, torch.arange(x.size(0)))",
        "F.cross_entropy(x @ x.T, torch.arange(x.size(0)), reduction='sum')", "x.size(0)",
    ),
    "root of the mean": pair(
        (Leaf("x", "values", ("B", "D")), Leaf("y", "float_targets", ("B", "D"))),
        "F.mse_loss(x, y).sqrt()", None, "y.numel()",
    ),
    "sum times zero": pair(MASKED, "(t * m).sum() / m.sum()", "(t * m).sum() / m.sum() * m.sum()", "m.sum()"),
    "raises": pair(ROWS, ce("mean"), ce("sum"), "missing"),
    "not scalar": pair(ROWS, "x", ce("sum"), "1"),
    "negative": pair(ROWS, ce("mean"), ce("sum"), "-1"),
    "zero": pair(ROWS, ce("mean"), ce("sum"), "0"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right_pairs_hold(runner, name):
    report = check_pair(RIGHT[name], runner)
    assert report.holds, report.reason
    assert report.error <= report.limit
    assert len(report.seeds) == 3
    assert any(a != b for a, b in report.counts)
    assert report.engine.startswith("torch ")


@pytest.mark.parametrize("name", WRONG)
def test_wrong_pairs_are_rejected(runner, name):
    report = check_pair(WRONG[name], runner)
    assert not report.holds
    assert report.reason
    assert not report.error <= report.limit


def test_the_drawings_hold_what_they_promise(runner):
    report = check_pair(RIGHT["tokens"], runner)
    scenarios = {drawing[0] for drawing in report.drawings}
    assert len(scenarios) == 6
    assert {d[2] for d in report.drawings if d[0] == "one fully ignored"} == {0}
    assert {d[2] for d in report.drawings if d[0] == "one valid target"} == {1}


def test_a_program_that_is_no_python_and_one_that_hangs():
    with Runner(timeout=1) as runner:
        assert "SyntaxError" in check_pair(LeafPair("def (", ROWS), runner).reason
        loops = pair(ROWS, ce("mean"), ce("sum"), "sum(1 for _ in iter(int, 1))")
        assert "timed out" in check_pair(loops, runner).reason


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind"):
        Leaf("x", "picture", ("B",))
