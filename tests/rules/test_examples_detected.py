"""The examples through the whole pipeline: each bad one is reported on its lines, each good one is silent.

What the rules mean to report but the engine does not (or the other way round) stands in KNOWN, each text with its
reason; an improvement makes its test fail until the text moves into the rule.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from accumlint.analysis import Options, check_source
from accumlint.cli.main import cli
from accumlint.rules.base import Example, Rule, example
from accumlint.rules.registry import all_rules, default_codes, get_rule
from accumlint.source.text import SourceText

CASES = [
    pytest.param(rule, shown, id=f"{rule.code}-{kind}-{number}")
    for rule in all_rules()
    if rule.clause is not None
    for kind, examples in (("good", rule.good), ("bad", rule.bad))
    for number, shown in enumerate(examples)
]
SUPPRESSIONS = [
    pytest.param(shown, id=f"{kind}-{number}")
    for kind, examples in (("good", get_rule("ACC901").good), ("bad", get_rule("ACC901").bad))
    for number, shown in enumerate(examples)
]
KNOWN = {
    "a rank's own count": (
        "ACC106",
        example("""
            import torch.nn.functional as F
            from torch.nn.parallel import DistributedDataParallel


            def train(net, stream, optimizer, rank, updates, accum=4):
                model = DistributedDataParallel(net.to(rank), device_ids=[rank])
                for _ in range(updates):
                    window = [next(stream) for _ in range(accum)]
                    local = sum((labels != -100).sum() for _, labels in window)
                    for ids, labels in window:
                        logits = model(ids.to(rank)).flatten(0, 1)
                        loss = F.cross_entropy(logits, labels.to(rank).flatten(), reduction="sum")
                        (loss / local).backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    ),
    "windows from an argument": (
        "ACC106",
        example("""
            import torch.distributed as dist
            import torch.nn.functional as F
            from torch.nn.parallel import DistributedDataParallel as DDP


            def train(net, windows, optimizer, rank):
                model = DDP(net.to(rank), device_ids=[rank])
                for window in windows:
                    total = sum((labels != -100).sum() for _, labels in window).to(rank)
                    dist.all_reduce(total)
                    for ids, labels in window:
                        logits = model(ids.to(rank)).flatten(0, 1)
                        loss = F.cross_entropy(logits, labels.to(rank).flatten(), reduction="sum")
                        (loss / total).backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    ),
    "frozen BatchNorm": (
        "ACC401",
        example("""
            import torch
            from torch import nn


            def finetune(features, values, updates, accum=4):
                model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                model.eval()
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        (nn.functional.mse_loss(model(features[pick]), values[pick]) / accum).backward()
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    ),
    "a model of torchvision": (
        "ACC401",
        example("""
            import torch
            import torchvision


            def train(images, labels, updates, accum=8):
                model = torchvision.models.resnet18(num_classes=10)
                optimizer = torch.optim.AdamW(model.parameters())
                model.train()
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(images), (4,))
                        loss = torch.nn.functional.cross_entropy(model(images[pick]), labels[pick])
                        (loss / accum).backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    ),
    "Dice over the batch": (
        "ACC402",
        example("""
            import torch


            def dice(probability, mask):
                overlap = (probability * mask).sum()
                return 1 - 2 * overlap / (probability.sum() + mask.sum() + 1)


            def train(net, images, masks, optimizer, updates, accum=4):
                for i in range(updates * accum):
                    pick = torch.randint(len(images), (8,))
                    loss = dice(net(images[pick]).sigmoid(), masks[pick])
                    (loss / accum).backward()  # <- here
                    if (i + 1) % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
        """),
    ),
    "multiplied back for the log": (
        "ACC403",
        example("""
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for i in range(updates * accum):
                    pick = torch.randint(len(features), (8,))
                    loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                    loss.backward()
                    if (i + 1) % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
                        print(f"loss {loss.item() * accum:.4f}")
        """),
    ),
    "drop_last through a generator": (
        "ACC404",
        example("""
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def endless(loader):
                while True:
                    yield from loader


            def train(model, dataset, optimizer, updates, accum=4):
                batches = endless(DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True))
                for _ in range(updates):
                    for _ in range(accum):
                        x, y = next(batches)
                        (F.cross_entropy(model(x), y) / accum).backward()
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    ),
}


def reported(shown: Example, code: str) -> list[tuple[str, int]]:
    """(code, line) of the default rules and of this one."""
    source = SourceText.from_bytes("example.py", shown.source.encode())
    report = check_source(source, Options(codes=default_codes() | {code}))
    assert not report.problems
    return sorted((finding.code, finding.span.line) for finding in report.findings)


def expected(shown: Example, code: str) -> list[tuple[str, int]]:
    return sorted([(code, line) for line in shown.lines] + list(shown.also))


@pytest.mark.parametrize(("rule", "shown"), CASES)
def test_examples(rule: Rule, shown: Example) -> None:
    assert reported(shown, rule.code) == expected(shown, rule.code)


@pytest.mark.parametrize("reason", KNOWN)
def test_known_gaps(reason: str) -> None:
    code, shown = KNOWN[reason]
    if reported(shown, code) == expected(shown, code):
        pytest.fail(f"{reason}: this is right now; move the text into {code}")
    pytest.xfail(reason)


@pytest.mark.parametrize("shown", SUPPRESSIONS)
def test_unused_suppressions(shown: Example, tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(shown.source, encoding="utf-8")
    arguments = ["check", "--isolated", "--extend-select", "ACC901", "--output-format", "json", "-j", "1", str(path)]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    lines = [(found["code"], found["location"]["row"]) for found in json.loads(result.output)]
    assert lines == expected(shown, "ACC901")
