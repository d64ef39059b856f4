"""Loss helpers with branches and loops, and in other files of the project: the mean is multiplied by its count at the
call, and the leaf check runs the helper itself. What it cannot run, or runs on some of its ways only, is not safe."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import accumlint
from accumlint import Applicability
from accumlint.contract.judge import judge_regions
from accumlint.reading.project import open_project
from accumlint.reading.read import read_module
from accumlint.repair.certificate import Certificate
from accumlint.repair.confirm import certify
from accumlint.repair.plan import RepairPlan, plan_all
from accumlint.repair.rewrite import apply_edits

pytest.importorskip("torch")
CHUNKED = """\
def chunked(logits, targets, chunk_size=128, ignore_index=-100):
    if isinstance(logits, list):
        if chunk_size == 0:
            logits = torch.cat(logits, dim=1)
            return F.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1), ignore_index=ignore_index)
        wanted = [part.reshape(-1) for part in targets.split(logits[0].size(1), dim=1)]
        losses = [
            F.cross_entropy(part.reshape(-1, part.size(-1)), target, ignore_index=ignore_index, reduction="none")
            for part, target in zip(logits, wanted)
        ]
        valid = (targets != ignore_index).sum()
        return torch.cat(losses).sum() / valid.maximum(torch.ones_like(valid))
    logits = logits.reshape(-1, logits.size(-1))
    targets = targets.reshape(-1)
    if chunk_size == 0:
        return F.cross_entropy(logits, targets, ignore_index=ignore_index)
    losses = [
        F.cross_entropy(part, target, ignore_index=ignore_index, reduction="none")
        for part, target in zip(logits.split(chunk_size), targets.split(chunk_size))
    ]
    valid = (targets != ignore_index).sum()
    return torch.cat(losses).sum() / valid.maximum(torch.ones_like(valid))
"""
LOOP = """\
import torch
import torch.nn.functional as F
{imports}

{helper}

def train(model, loader, optimizer, option, accum=4):
    for i, batch in enumerate(loader):
        logits = model(batch["input_ids"])
        loss = {call}
        (loss / accum).backward()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
SHIFTED = 'chunked(logits[..., :-1, :], batch["labels"][..., 1:])'
PLAIN = 'helper(logits, batch["labels"])'


def script(helper: str, call: str = PLAIN, imports: str = "") -> str:
    return LOOP.format(helper=textwrap.dedent(helper), call=call, imports=imports)


def level(text: str) -> tuple[Applicability | None, str]:
    """The applicability of the repair, and why it is not safe."""
    findings = accumlint.check_source(text, confirm=True, select=["ACC101", "ACC102", "ACC103"]).findings
    assert findings
    fix = findings[0].fix
    if fix is None:
        return None, str(findings[0].unfixable)
    return fix.certificate.applicability, fix.certificate.disagreement or "; ".join(fix.certificate.missing)


def certified(text: str, *changes: tuple[str, str]) -> Certificate:
    """The certificate of the planned repair with parts of its text replaced, beside the plan as it was."""
    module = read_module(text, "t.py")
    plan = plan_all(module, judge_regions(module))[0]
    assert isinstance(plan, RepairPlan), plan.reason
    new = apply_edits(text, plan.edits)
    for old, other in changes:
        assert old in new, new
        new = new.replace(old, other)
    return certify(module, judge_regions(module, thorough=True), plan, new, "t.py", confirm=True)


COUNT = 'int((batch["labels"][..., 1:] != -100).sum())'


def test_a_chunked_loss_is_weighed_at_its_call() -> None:
    found = certified(script(CHUNKED, SHIFTED))
    assert found.applicability is Applicability.SAFE, (found.missing, found.disagreement)


@pytest.mark.parametrize(
    "changes",
    [
        ((COUNT, 'int((batch["labels"] != -100).sum())'),),
        ((COUNT, 'int((batch["labels"][..., :-1] != -100).sum())'),),
        ((COUNT, 'int((batch["labels"][..., 1:] != 0).sum())'),),
        ((COUNT, 'batch["labels"][..., 1:].numel()'),),
        ((COUNT, 'batch["labels"].size(0)'),),
        ((COUNT, 'int((batch["input_ids"][..., 1:] != -100).sum())'),),
        ((" * batch_targets", ""),),
        (("loss.backward()", "(loss / accum).backward()"),),
        (("num_targets += batch_targets", "num_targets = batch_targets"),),
        (("            num_targets = 0\n", ""),),
        (("max(num_targets, 1)", "max(batch_targets, 1)"),),
        ((SHIFTED + " * batch_targets", SHIFTED + " * num_targets"),),
        ((SHIFTED, 'chunked(logits, batch["labels"])'),),
        (("valid.maximum(torch.ones_like(valid))\n\n", "targets.numel()\n\n"),),
        (
            (
                'reduction="none")\n        for part, target in zip(logits.split',
                'reduction="sum") / len(target)\n        for part, target in zip(logits.split',
            ),
        ),
    ],
)
def test_a_wrong_repair_beside_a_chunked_loss_is_not_safe(changes: tuple[tuple[str, str], ...]) -> None:
    assert certified(script(CHUNKED, SHIFTED), *changes).applicability is not Applicability.SAFE


RIGHT = {
    "a number that the call writes down": (
        CHUNKED,
        SHIFTED.replace(", batch", ", targets=batch").replace("1:])", "1:], chunk_size=0)"),
    ),
    "a number of the configuration": (
        """\
        def helper(logits, labels, smoothing):
            if smoothing > 0:
                return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing)
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        """,
        'helper(logits, batch["labels"], option)',
    ),
    "no target at all": (
        """\
        def helper(logits, labels):
            valid = labels != -100
            if not valid.any():
                return logits.sum() * 0.0
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        """,
        PLAIN,
    ),
    "another function": (
        """\
        def masked_mean(values, mask):
            return (values * mask).sum() / mask.sum().clamp(min=1)

        def helper(logits, labels):
            losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
            if losses.dim() == 2:
                losses = losses.flatten()
            return masked_mean(losses, (labels != -100).flatten())
        """,
        PLAIN,
    ),
}
REFUSED_YET = {"another function"}


@pytest.mark.parametrize("name", RIGHT)
def test_a_helper_that_can_be_run_is_repaired_safely(name: str) -> None:
    helper, call = RIGHT[name]
    found, reason = level(script(helper, call))
    if name in REFUSED_YET:
        assert found is None, "no wrong claim, and no repair yet"
    else:
        assert found is Applicability.SAFE, reason


WRONG = {
    "one way sums": """\
        def helper(logits, labels):
            if labels.dim() == 2:
                return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
            return F.cross_entropy(logits, labels)
        """,
    "a mean of means over pieces that only long data have": """\
        def helper(logits, labels, size=64):
            logits, labels = logits.flatten(0, 1), labels.flatten()
            parts = [F.cross_entropy(a, b) for a, b in zip(logits.split(size), labels.split(size))]
            return torch.stack(parts).mean()
        """,
    "a way that drawn data do not take": """\
        def helper(logits, labels):
            if labels.max() > 50000:
                return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        """,
    "a way for lists with another count": """\
        def helper(logits, labels):
            if isinstance(logits, list):
                losses = [F.cross_entropy(a.flatten(0, 1), b.flatten()) for a, b in zip(logits, labels.split(2, dim=1))]
                return torch.stack(losses).mean()
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        """,
    "examples that are compared": """\
        def helper(logits, labels):
            if logits.dim() == 3:
                logits = logits - logits.mean(0, keepdim=True)
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        """,
    "targets that are changed in place": """\
        def helper(logits, labels):
            if logits.dim() == 3:
                labels[:, 0] = -100
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        """,
    "a part that is left out": """\
        def helper(logits, labels):
            if logits.size(0) > 4:
                logits, labels = logits[:4], labels[:4]
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        """,
    "chance": """\
        def helper(logits, labels):
            if torch.rand(1).item() > 0.5:
                return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / 100
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        """,
    "a global that changes": """\
        scale = 1
        scale += 1

        def helper(logits, labels):
            if scale > 1:
                return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / labels.size(0)
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        """,
    "a decorator": """\
        def summed(f):
            return lambda logits, labels: f(logits, labels) * len(labels)

        @summed
        def helper(logits, labels):
            if logits.dim() == 3:
                logits, labels = logits.flatten(0, 1), labels.flatten()
            return F.cross_entropy(logits, labels)
        """,
    "a function of another library": """\
        from losses import reweigh

        def helper(logits, labels):
            if logits.dim() == 3:
                logits, labels = logits.flatten(0, 1), labels.flatten()
            return reweigh(F.cross_entropy(logits, labels, reduction="none")).mean()
        """,
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_helper_whose_count_is_another_one_is_not_safe(name: str) -> None:
    found, reason = level(script(WRONG[name]))
    assert found is not Applicability.SAFE
    assert reason


@pytest.mark.parametrize(
    "test",
    [
        "option > 1",
        "option",
        "option == 'sum'",
        "labels.size(0) > 64",
        "labels.sum() > 10**9",
        "logits.sum() > 1e9",
        "option is None",
    ],
)
def test_a_way_that_is_not_taken_on_drawn_data_is_not_safe(test: str) -> None:
    parameters = "logits, labels, option" if "option" in test else "logits, labels"
    helper = f"""\
        def helper({parameters}):
            if {test}:
                return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        """
    passed = 'helper(logits, batch["labels"], option)' if "option" in test else PLAIN
    found, reason = level(script(helper, passed))
    assert found is not Applicability.SAFE
    assert ("what `option` is" if "option" in test else "a branch of the loss is not taken") in reason


def test_a_name_that_means_something_else_is_not_followed() -> None:
    text = script(CHUNKED, SHIFTED).replace("option, accum", "option, chunked=None, accum")
    found = accumlint.check_source(text, confirm=True, select=["ACC101"]).findings
    assert all(each.fix is None or each.fix.certificate.applicability is not Applicability.SAFE for each in found)


def project(root: Path, losses: str, call: str = SHIFTED) -> Path:
    (root / "pyproject.toml").write_text("")
    (root / "losses.py").write_text(f"import torch\nimport torch.nn.functional as F\n\n\n{textwrap.dedent(losses)}")
    path = root / "train.py"
    path.write_text(script("", call, "from losses import chunked"))
    open_project.cache_clear()
    return path


def of_project(path: Path) -> tuple[Applicability | None, str]:
    (finding,) = accumlint.check_source(path.read_text(), str(path), confirm=True, select=["ACC101"]).findings
    if finding.fix is None:
        return None, str(finding.unfixable)
    certificate = finding.fix.certificate
    return certificate.applicability, certificate.disagreement or "; ".join(certificate.missing)


def test_a_helper_of_another_file_is_followed_and_left_alone(tmp_path: Path) -> None:
    path = project(tmp_path, CHUNKED)
    before = (tmp_path / "losses.py").read_text()
    found, reason = of_project(path)
    assert found is Applicability.SAFE, reason
    assert (tmp_path / "losses.py").read_text() == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("valid.maximum(torch.ones_like(valid))", "targets.numel()"),
        ("(targets != ignore_index).sum()", "(targets != 0).sum()"),
        ("ignore_index=-100", "ignore_index=SOMETHING"),
    ],
)
def test_a_helper_of_another_file_with_another_count_is_not_safe(tmp_path: Path, old: str, new: str) -> None:
    assert of_project(project(tmp_path, CHUNKED.replace(old, new)))[0] is not Applicability.SAFE


ENDLESS = """\
import torch
import torch.nn.functional as F
from itertools import cycle


def validate(model, loader):
    for ids, labels in loader:
        model(ids)


def train(model, loader: torch.utils.data.DataLoader, checks: torch.utils.data.DataLoader, optimizer, steps, accum=4):
    batches = cycle(loader)
    done = 0
    while done < steps:
        done += 1
        ids, labels = next(batches)
        loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), ignore_index=-100)
        (loss / accum).backward()
        if done % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
            validate(model, checks)
"""


def test_the_end_of_a_validation_is_no_end_of_the_training_data() -> None:
    found, reason = level(ENDLESS)
    assert found is Applicability.SAFE, reason


def test_the_end_of_the_same_data_in_a_loop_beside_is_one() -> None:
    assert level(ENDLESS.replace("validate(model, checks)", "validate(model, loader)"))[0] is not Applicability.SAFE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            optimizer.zero_grad()\n", ""),
        ("if done % accum == 0", "if done % accum == 1"),
        ("            num_targets = 0\n", ""),
        ("            optimizer.step()\n", "        optimizer.step()\n"),
        ("cycle(loader)", "iter(loader)"),
    ],
)
def test_a_loop_beside_the_data_hides_no_wrong_window(old: str, new: str) -> None:
    assert certified(ENDLESS, (old, new)).applicability is not Applicability.SAFE
