"""Certificates of repairs made by hand: what reaches `safe`, what does not, and why it says so."""

from __future__ import annotations

import pytest

from accumlint.contract.judge import judge_regions
from accumlint.reading.read import read_module
from accumlint.repair.certificate import Applicability, Check
from accumlint.repair.confirm import certify, certify_derived
from accumlint.repair.derive import Derived

BEFORE = """
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_

def train(model, loader, optimizer, k):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        (loss / k).backward()
        if (i + 1) % k == 0 or i + 1 == len(loader):
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
"""
AFTER = """
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_

def train(model, loader, optimizer, k):
    n = 0
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y, reduction="sum")
        loss.backward()
        n += int((y != -100).sum())
        if (i + 1) % k == 0 or i + 1 == len(loader):
            for p in model.parameters():
                p.grad.div_(max(n, 1))
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            n = 0
"""
COUNT = "int((y != -100).sum())"


def level(after: str, before: str = BEFORE) -> tuple[Applicability, str]:
    found = certify_derived(before, after, "train.py")
    return found.applicability, "; ".join(found.missing)


def test_a_right_repair_is_safe_and_the_same_each_time() -> None:
    pytest.importorskip("torch")
    found = certify_derived(BEFORE, AFTER, "train.py")
    assert found.applicability is Applicability.SAFE, found
    executed = next(measure for measure in found.measures if measure.check is Check.EXECUTED)
    assert executed.error <= executed.limit < 1e-3 < (executed.original_error or 0)
    assert any(0 in window for window in executed.counts) or executed.counts
    assert "the clip is active" in found.assumptions
    assert certify_derived(BEFORE, AFTER, "train.py") == found


def test_without_confirmation_it_is_proved_and_says_what_is_missing() -> None:
    found = certify_derived(BEFORE, AFTER, "train.py", confirm=False)
    assert found.discharged == {Check.PROVED}
    assert found.applicability is Applicability.UNSAFE
    assert len(found.missing) == 2


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("            n = 0\n", "", "weigh"),
        ("max(n, 1)", "k", "weigh"),
        ("            clip_grad_norm_(model.parameters(), 1.0)\n", "", "clip of the original is gone"),
        (" or i + 1 == len(loader)", "", "loop ends"),
        ("            optimizer.zero_grad()\n", "", "earlier window"),
        ("(y != -100)", "(y != 0)", "not what the loss divides by"),
        (COUNT, "y.numel()", "not what the loss divides by"),
        ("max(n, 1)", "n", "divides by zero"),
        ("        n += ", "        y[x > 0] = -100\n        n += ", "changed in place"),
        (COUNT, "count(y)", "leaf-checked"),
    ],
)
def test_a_wrong_repair_is_not_safe(old: str, new: str, reason: str) -> None:
    pytest.importorskip("torch")
    assert old in AFTER
    applicability, missing = level(AFTER.replace(old, new))
    assert applicability is not Applicability.SAFE
    assert reason in missing or (reason == "weigh" and "weight" in missing)


def test_the_same_name_in_a_helper_is_another_thing() -> None:
    """The helper shifts what it is given, so that a count of the caller's `y` is not its normaliser."""
    pytest.importorskip("torch")
    helper = "\ndef loss_fn(out, y):\n    return F.cross_entropy(out.flatten(0, 1), y.flatten(){})\n"
    before = BEFORE.replace("F.cross_entropy(model(x), y)", "loss_fn(model(x)[:, :-1], y[:, 1:])") + helper.format("")
    after = AFTER.replace('F.cross_entropy(model(x), y, reduction="sum")', "loss_fn(model(x)[:, :-1], y[:, 1:])")
    after += helper.format(', reduction="sum"')
    module = read_module(before, "train.py")
    judged = judge_regions(module)
    site = next(s for t in judged[0].result.default for e in t.events if e.form for s, _ in e.form.terms)
    mean = "F.cross_entropy(out.flatten(0, 1), y.flatten())"
    for count, right in ((COUNT, False), ("int((y[:, 1:] != -100).sum())", True)):
        plan = [Derived(site.node, mean, mean[:-1] + ", reduction='sum')", count)]
        found = certify(module, judged, plan, after.replace(COUNT, count), "train.py", confirm=True)
        assert (found.applicability is Applicability.SAFE) is right, found
    changed = after.replace("        n += ", "        y[x > 0] = -100\n        n += ").replace(COUNT, count)
    found = certify(module, judged, plan, changed, "train.py", confirm=True)
    assert "changed in place" in "; ".join(found.missing)


def test_a_plan_that_names_another_count_than_the_text_is_not_believed() -> None:
    pytest.importorskip("torch")
    module = read_module(BEFORE, "train.py")
    judged = judge_regions(module)
    plan = [Derived(-1, "F.cross_entropy(model(x), y)", 'F.cross_entropy(model(x), y, reduction="sum")', COUNT)]
    found = certify(module, judged, plan, AFTER.replace(COUNT, "y.numel()"), "train.py", confirm=True)
    assert found.applicability is not Applicability.SAFE


def test_ranks_need_a_count_of_all_ranks() -> None:
    pytest.importorskip("torch")
    wrap = "import torch.distributed\nfrom torch.nn.parallel import DistributedDataParallel\n"
    applicability, missing = level(wrap + AFTER, wrap + BEFORE)
    assert applicability is not Applicability.SAFE
    assert "ranks" in missing


def test_a_text_that_does_not_parse_or_changes_nothing_has_no_level() -> None:
    assert certify_derived(BEFORE, AFTER + "def (", "train.py").level == "none"
    assert certify_derived(BEFORE, BEFORE, "train.py").level == "none"


UNSEEN = """
def train(model, loss_of, loader, optimizer, k):
    tokens = 0
    for i, (x, y) in enumerate(loader):
        count = (y != -100).sum()
        tokens += count
        (loss_of(model(x), y) * count).backward()
        if (i + 1) % k == 0:
            for p in model.parameters():
                p.grad.div_(tokens)
            optimizer.step()
            optimizer.zero_grad()
            tokens = 0
"""
FLUSHED = UNSEEN.replace("% k == 0:", "% k == 0 or i + 1 == len(loader):")
MEAN = "the loss is a mean over the targets that the loop counts: it is multiplied by them"


def test_an_unseen_loss_that_is_multiplied_by_its_count_is_a_mean() -> None:
    pytest.importorskip("torch")
    module = read_module(UNSEEN, "train.py")
    found = certify(module, judge_regions(module, thorough=True), (), FLUSHED, "train.py", confirm=True)
    assert found.applicability is Applicability.SAFE, found.missing
    assert MEAN in found.assumptions


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (UNSEEN, FLUSHED.replace(" * count)", ")")),
        (UNSEEN, FLUSHED.replace("            tokens = 0\n", "")),
        (UNSEEN, FLUSHED.replace("div_(tokens)", "div_(tokens * k)")),
        (UNSEEN.replace(" * count)", " / k)").replace("div_(tokens)", "div_(1)"), FLUSHED),
    ],
)
def test_an_unseen_loss_with_other_weights_is_not_safe(before: str, after: str) -> None:
    pytest.importorskip("torch")
    module = read_module(before, "train.py")
    found = certify(module, judge_regions(module, thorough=True), (), after, "train.py", confirm=True)
    assert found.applicability is not Applicability.SAFE


def test_a_loop_below_the_repaired_one_is_not_changed_by_moving() -> None:
    """Its own fault, which this repair leaves, is no objection to it: what names a place in the file has moved."""
    pytest.importorskip("torch")
    below = """
def other(net, data, k):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for i, (x, y) in enumerate(torch.utils.data.DataLoader(data)):
        (F.mse_loss(net(x), y) / k).backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
    before, after = f"import torch{BEFORE}{below}", f"import torch{AFTER}{below}"
    assert certify_derived(before, after, "train.py").applicability is Applicability.SAFE
    worse = after.replace("            optimizer.zero_grad()\n            n = 0", "            n = 0")
    assert certify_derived(before, worse, "train.py").applicability is not Applicability.SAFE
    spoiled = f"import torch{AFTER}{below}".replace("(F.mse_loss(net(x), y) / k)", "F.mse_loss(net(x), y)")
    assert certify_derived(before, spoiled, "train.py").applicability is not Applicability.SAFE
