"""What a check costs, counted in work and not in seconds: parses by kind, and reads of followed files."""

from __future__ import annotations

import ast
import symtable
from collections import Counter
from pathlib import Path
from typing import Any

import libcst
import pytest

from accumlint.analysis import Options, check_source
from accumlint.reading.project import Project, open_project
from accumlint.source.text import SourceText

LOOP = """
def train(model, loader, optimizer, loss_of):
    for i, (x, y) in enumerate(loader):
        loss = loss_of(model(x), y) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
HELPER = (
    "import torch.nn.functional as F\n\n\ndef loss_of(logits, labels):\n    return F.cross_entropy(logits, labels)\n"
)
IMPORTING = "from losses import loss_of\n" + LOOP.replace("optimizer, loss_of", "optimizer")
HEAD = """
class TinyForCausalLM(PreTrainedModel):
    def forward(self, input_ids, labels=None, **kwargs):
        return self.loss_function(self.lm(input_ids), labels)
"""


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each parser was called, and a followed file read."""
    counts: Counter[str] = Counter()

    def count(owner: Any, name: str, label: str) -> None:
        function = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            if label != "ast" or "\n" in str(args[0]):  # a literal of one line is no file
                counts[label] += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)

    count(ast, "parse", "ast")
    count(symtable, "symtable", "symbols")
    count(libcst, "parse_module", "libcst")
    count(Project, "_read", "followed")
    open_project.cache_clear()
    return counts


def check(path: Path) -> list[str]:
    report = check_source(SourceText.from_path(path), Options())
    assert not report.problems
    return [finding.code for finding in report.findings]


def test_a_file_without_a_word_of_training_is_not_turned_into_objects(tmp_path: Path, work: Counter[str]) -> None:
    for number in range(10):
        path = tmp_path / f"m{number}.py"
        path.write_text("def f(x):\n    return x + 1\n" * 20)
        assert check(path) == []
    assert work == {"symbols": 10}


def test_a_training_file_is_parsed_once(tmp_path: Path, work: Counter[str]) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    assert check(path)
    assert work == {"ast": 1}


def test_a_model_head_is_parsed_once_and_not_searched_for_loops(
    tmp_path: Path, work: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("no loop can be there")

    monkeypatch.setattr("accumlint.analysis.judge_module", never)
    path = tmp_path / "modeling.py"
    path.write_text("from transformers import PreTrainedModel\n" + HEAD)
    assert check(path) == ["ACC108"]
    assert work["ast"] == 2  # the one method by itself, then the file
    assert work["libcst"] == 0


def test_a_followed_file_is_read_once_for_all_that_import_it(tmp_path: Path, work: Counter[str]) -> None:
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "losses.py").write_text(HELPER)
    for number in range(5):
        path = tmp_path / f"train{number}.py"
        path.write_text(IMPORTING)
        assert "ACC102" in check(path)
    assert work["followed"] == 1
    assert work["ast"] == 6
    assert work["libcst"] == 0


def test_packages_that_import_each_other_whole_are_followed_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way through the packages was walked once: nine packages are thousands of ways, torch's are millions."""
    names = [f"p{number}" for number in range(9)]
    (tmp_path / "setup.py").write_text("")
    for name in names:
        (tmp_path / name).mkdir()
        text = "".join(f"from {other}.gone import *\n" for other in names)
        (tmp_path / name / "__init__.py").write_text(text + "# backward\n")
    path = tmp_path / "train.py"
    path.write_text("".join(f"from {name} import loss_of\n" for name in names) + LOOP.replace(", loss_of)", ")"))
    walked: Counter[str] = Counter()
    real = Project._passed_on

    def counted(self: Project, package: Path, name: str, depth: int) -> Any:
        walked["packages"] += 1
        return real(self, package, name, depth)

    monkeypatch.setattr(Project, "_passed_on", counted)
    assert "ACC304" in check(path)
    assert 9 <= walked["packages"] < 500
