"""Pre-count: what is written for each kind of loop, what is refused and why, when it is chosen, what it establishes."""

from __future__ import annotations

import itertools
import textwrap

import pytest

from accumlint.analysis import Options, check_source, judge_module
from accumlint.reading.read import read_module
from accumlint.repair.certificate import Applicability
from accumlint.repair.plan import RepairPlan, Unrepairable, plan_all
from accumlint.repair.rewrite import apply_edits
from accumlint.source.text import SourceText

HEAD = "import os\n\nimport torch\nimport torch.nn.functional as F\n\n\n"

FLAT = """\
def train(model, loader, optimizer, K):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):  # batches
        # forward
        loss = F.cross_entropy(model(x), y, ignore_index=0)
        loss = loss / K  # mean

        loss.backward()
        if (i + 1) % K == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
FLAT_AFTER = """\
def train(model, loader, optimizer, K):
    optimizer.zero_grad()
    batches_2 = enumerate(loader)
    while window := list(islice(batches_2, K)):
        num_targets = sum(int((y != 0).sum()) for _, (_, y) in window)
        for i, (x, y) in window:  # batches
            # forward
            loss = F.cross_entropy(model(x), y, ignore_index=0, reduction="sum")
            loss = loss / max(num_targets, 1)  # mean

            loss.backward()
            if (i + 1) % K == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
"""
FETCHED = """\
def train(model, batches, optimizer, K, updates):
    for _ in range(updates):
        optimizer.zero_grad()
        for micro in range(K):
            batch = next(batches)
            loss = F.cross_entropy(model(batch), batch["labels"], ignore_index=0) / K
            loss.backward()
        optimizer.step()
"""
FETCHED_AFTER = """\
def train(model, batches, optimizer, K, updates):
    for _ in range(updates):
        optimizer.zero_grad()
        window = [next(batches) for _ in range(K)]
        num_targets = sum(int((batch["labels"] != 0).sum()) for batch in window)
        for batch in window:
            loss = F.cross_entropy(model(batch), batch["labels"], ignore_index=0, reduction="sum") / max(num_targets, 1)
            loss.backward()
        optimizer.step()
"""
REFILLED = """\
def train(model, batches, optimizer, K, updates):
    total = 0.0
    for step in range(updates * K):
        x, y = next(batches)
        x, y = x.cuda(), y.cuda()
        loss = F.cross_entropy(model(x), y, ignore_index=0)
        total += loss.item()
        (loss / K).backward()
        if (step + 1) % K == 0:
            optimizer.step()
            optimizer.zero_grad()
    return total
"""
REFILLED_AFTER = """\
def train(model, batches, optimizer, K, updates):
    total = 0.0
    for step in range(updates * K):
        if step % K == 0:
            window = [next(batches) for _ in range(K)]
            num_targets = sum(int((y != 0).sum()) for _, y in window)
        x, y = window[step % K]
        x, y = x.cuda(), y.cuda()
        batch_targets = int((y != 0).sum())
        loss_sum = F.cross_entropy(model(x), y, ignore_index=0, reduction="sum")
        loss = loss_sum.detach() / max(batch_targets, 1)
        total += loss.item()
        (loss_sum / max(num_targets, 1)).backward()
        if (step + 1) % K == 0:
            optimizer.step()
            optimizer.zero_grad()
    return total
"""
LISTED = """\
def train(model, batches, optimizer, K, updates):
    for _ in range(updates):
        group = [next(batches) for _ in range(K)]
        optimizer.zero_grad()
        for x, y in group:
            loss = F.cross_entropy(model(x), y, ignore_index=0)
            (loss / len(group)).backward()
        optimizer.step()
"""
LISTED_AFTER = """\
def train(model, batches, optimizer, K, updates):
    for _ in range(updates):
        group = [next(batches) for _ in range(K)]
        optimizer.zero_grad()
        num_targets = sum(int((y != 0).sum()) for _, y in group)
        for x, y in group:
            loss = F.cross_entropy(model(x), y, ignore_index=0, reduction="sum")
            (loss / max(num_targets, 1)).backward()
        optimizer.step()
"""
ON_DEVICE = FLAT.replace(
    "    for i, (x, y) in enumerate(loader):  # batches\n        # forward\n",
    "    for i, batch in enumerate(loader):\n"
    '        batch = {k: v.to("cuda") for k, v in batch.items()}\n'
    '        x, y = batch["x"], batch["labels"][:, 1:]\n',
)
SCALED = (
    FLAT.replace("loss.backward()", "scaler.scale(loss).backward()")
    .replace("            optimizer.step()\n", "            scaler.step(optimizer)\n            scaler.update()\n")
    .replace("optimizer, K", "optimizer, scaler, K")
)


def planned(text: str, strategy: str = "precount") -> RepairPlan | str:
    module = read_module(text, "t.py")
    for plan in plan_all(module, judge_module(module), strategy):
        return plan.reason if isinstance(plan, Unrepairable) else plan
    raise AssertionError("no finding")


def repaired(text: str, strategy: str = "precount") -> str:
    plan = planned(text, strategy)
    assert isinstance(plan, RepairPlan), plan
    return apply_edits(text, plan.edits)


@pytest.mark.parametrize(
    ("before", "after"),
    [(FLAT, FLAT_AFTER), (FETCHED, FETCHED_AFTER), (REFILLED, REFILLED_AFTER), (LISTED, LISTED_AFTER)],
)
def test_each_kind_of_loop_is_collected_in_its_own_style(before: str, after: str) -> None:
    head = HEAD if after is not FLAT_AFTER else HEAD.replace("import os\n", "import os\nfrom itertools import islice\n")
    assert repaired(HEAD + before) == head + after


@pytest.mark.parametrize("text", [FLAT, FETCHED, REFILLED, LISTED, ON_DEVICE, SCALED], ids=str.splitlines)
def test_the_repair_is_safe_and_a_second_pass_changes_nothing(text: str) -> None:
    pytest.importorskip("torch")
    source = SourceText.from_bytes("t.py", (HEAD + text).encode())
    findings = check_source(source, Options(repair=True, confirm=True, strategy="precount")).findings
    certificate = next(finding.fix.certificate for finding in findings if finding.fix is not None)
    assert certificate.applicability is Applicability.SAFE, certificate.missing
    after = SourceText.from_bytes("t.py", repaired(HEAD + text).encode())
    assert not check_source(after, Options(repair=True, strategy="precount")).findings


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_line_ends_are_kept(newline: str) -> None:
    assert repaired((HEAD + FLAT).replace("\n", newline)).replace(newline, "\n") == repaired(HEAD + FLAT)


def test_tabs_are_kept() -> None:
    assert repaired((HEAD + FLAT).replace("    ", "\t")) == repaired(HEAD + FLAT).replace("    ", "\t")


@pytest.mark.parametrize(
    ("head", "added"),
    [
        ("from itertools import islice as cut\nimport torch.nn.functional as F\n", "list(cut("),
        ("import itertools\nimport torch.nn.functional as F\n", "list(itertools.islice("),
        ("import torch.nn.functional as F\n", "from itertools import islice\n\nimport torch"),
        (
            "from __future__ import annotations\n\nimport torch.nn.functional as F\n",
            "annotations\n\nfrom itertools import islice\n\nimport torch",
        ),
    ],
)
def test_islice_is_imported_where_it_is_missing(head: str, added: str) -> None:
    assert added in repaired(head + FLAT)


def test_a_step_behind_the_loop_still_flushes_the_partial_window() -> None:
    flushed = FLAT.replace(" or i + 1 == len(loader)", "") + textwrap.indent(
        "if (i + 1) % K != 0:\n    optimizer.step()\n    optimizer.zero_grad()\n", "    "
    )
    text = repaired(HEAD + flushed)
    assert "                optimizer.zero_grad()\n    if (i + 1) % K != 0:\n        optimizer.step()\n" in text


def with_line(*lines: str) -> str:
    """FLAT with lines before its forward."""
    return FLAT.replace("        # forward\n", "".join(f"        {line}\n" for line in lines))


STREAM = with_line("next(it)").replace("enumerate(loader)", "enumerate(it)")
TRIED = FETCHED.replace(
    "            batch = next(batches)\n",
    "            try:\n                batch = next(batches)\n            except OSError:\n                pass\n",
)
WHILE = """\
def train(model, batches, optimizer, K, updates):
    step = 0
    while step < updates:
        x, y = next(batches)
        loss = F.cross_entropy(model(x), y, ignore_index=0) / K
        loss.backward()
        step += 1
        if step % K == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (with_line("if i > 100:", "    break"), "a `break` or `return` leaves the loop"),
        (with_line("if i > 100:", "    return"), "a `break` or `return` leaves the loop"),
        (FLAT + "    else:\n        print(1)\n", "the loop has an `else`"),
        (WHILE, "no plain `for`"),
        (STREAM, "takes batches from its iterator itself"),
        (TRIED, "fetched in a branch"),
        (FETCHED.replace("next(batches)", "get_batch(micro)"), "depends on what the loop computes"),
        (with_line("y = label(x)"), "`y`, which the count needs, is computed by a call"),
        (with_line("x, y = mix(x, y)"), "`y`, which the count needs, is computed by a call"),
        (with_line("if i > 9:", "    y = x"), "gets its value in a branch"),
        (with_line("y[y == 5] = 0"), "may be changed in place"),
        (with_line("y.clamp_(0)"), "may be changed in place"),
        (with_line("hide_padding(y)"), "may be changed in place"),
        (with_line('print("""', '""")'), "a string over several lines"),
    ],
    ids=itertools.count(),
)
def test_what_cannot_be_collected_is_refused_with_the_reason(text: str, reason: str) -> None:
    found = planned(HEAD + text)
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize(
    "given", ["[next(batches) for _ in range(K)]", "list(islice(batches, K))", "islice(batches, K)"]
)
def test_only_what_is_known_to_be_a_list_is_gone_through_twice(given: str) -> None:
    head = HEAD.replace("import os", "from itertools import islice")
    text = LISTED.replace("[next(batches) for _ in range(K)]", given).replace("(loss / len(group))", "loss")
    held = "list(group)" in repaired(head + text)
    assert held == given.startswith("islice")


def test_a_scaler_is_what_chooses_the_pre_count() -> None:
    pytest.importorskip("torch")
    chosen = planned(HEAD + SCALED, "auto")
    assert isinstance(chosen, RepairPlan)
    assert chosen.strategy == "precount"
    assert "loss = F.cross_entropy" in repaired(HEAD + FLAT, "auto")
    plain = planned(HEAD + FLAT, "auto")
    assert isinstance(plain, RepairPlan)
    assert plain.strategy == "deferred"


@pytest.mark.parametrize("strategy", ["auto", "deferred"])
def test_raw_sums_under_a_scaler_are_never_safe(strategy: str) -> None:
    pytest.importorskip("torch")
    text = HEAD + SCALED.replace("        # forward\n", "        if i > 99:\n            break\n")
    source = SourceText.from_bytes("t.py", text.encode())
    findings = check_source(source, Options(repair=True, confirm=True, strategy=strategy)).findings
    fix = next(finding.fix for finding in findings if finding.fix is not None)
    assert fix.strategy == "deferred"
    assert fix.certificate.applicability is Applicability.UNSAFE
    assert any("overflow fp16" in missing for missing in fix.certificate.missing)
