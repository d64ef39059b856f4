"""How much work a check of a small tree is, counted and not timed: what is parsed, lowered, interpreted for which file.

The limits are what the tree needs, with some slack for what the interpreter may learn; a file that starts to be read
for nothing, or twice, is beyond them.
"""

from __future__ import annotations

import symtable
from collections import Counter
from pathlib import Path

import pytest

from accumlint import analysis
from accumlint.analysis import Options, check_source
from accumlint.reading import prefilter, read
from accumlint.reading.project import open_project
from accumlint.semantics.machine import MachineState
from accumlint.source.text import SourceText

LOOP = """
import torch.nn.functional as F

def train_{0}(model, loader, optimizer):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
PLAIN = """
# kept for backward compatibility with the first step
def plain_{0}(values, limit={0}):
    return [value for at, value in enumerate(values) if value > limit]
"""
MODEL = """
from transformers import PreTrainedModel

class Block(nn.Module):
    def forward(self, x, **kwargs):
        return x

class Model{0}(PreTrainedModel):
    def forward(self, x, labels=None, **kwargs):
        loss = self.loss_function(x, labels{1})
        return loss
"""
IMPORTER = """
from plain_1 import plain_1

def step(values):
    for value in values:
        plain_1(value)
"""


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What was done, by name."""
    done: Counter[str] = Counter()

    def count(owner: object, name: str, counted: str) -> None:
        original = getattr(owner, name)

        def counting(*arguments, **keywords):
            done[counted] += 1
            return original(*arguments, **keywords)

        monkeypatch.setattr(owner, name, counting)

    for module in (analysis, prefilter, read):
        count(module, "parse", "trees")
    count(symtable, "symtable", "tables")
    count(read, "lower_statements", "lowered")
    count(MachineState, "spend", "steps")
    return done


def check(folder: Path, files: dict[str, str], codes: frozenset[str] | None = None) -> list[str]:
    """The codes of the findings in files of one project."""
    (folder / "setup.py").write_text("")
    for name, text in files.items():
        (folder / name).write_text(text)
    open_project.cache_clear()
    sources = [SourceText.from_path(folder / name) for name in files]
    return [found.code for source in sources for found in check_source(source, Options(codes=codes)).findings]


def test_a_file_without_a_loop_is_only_held_against_the_grammar(tmp_path: Path, work: Counter[str]) -> None:
    files = {f"plain_{at}.py": PLAIN.format(at) for at in range(20)}
    assert check(tmp_path, {**files, "importer.py": IMPORTER}) == []
    assert +work == {"tables": 21}


def test_a_model_that_hands_its_kwargs_on_is_not_read(tmp_path: Path, work: Counter[str]) -> None:
    assert check(tmp_path, {f"m{at}.py": MODEL.format(at, ", **kwargs") for at in range(10)}) == []
    assert (work["lowered"], work["steps"]) == (0, 0)
    assert work["tables"] == 10
    assert work["trees"] == 10  # of the one method that could be a head's, not of the file


def test_a_head_is_lowered_once_and_no_loop_is_searched_for(tmp_path: Path, work: Counter[str]) -> None:
    assert check(tmp_path, {"m.py": MODEL.format(1, "")}) == ["ACC108"]
    assert (work["lowered"], work["trees"], work["tables"], work["steps"]) == (1, 2, 0, 0)


def test_without_the_rule_about_heads_none_is_read(tmp_path: Path, work: Counter[str]) -> None:
    assert check(tmp_path, {"m.py": MODEL.format(1, "")}, frozenset({"ACC101"})) == []
    assert +work == {"tables": 1}


def test_a_loop_is_parsed_and_lowered_once(tmp_path: Path, work: Counter[str]) -> None:
    assert "ACC102" in check(tmp_path, {"train.py": LOOP.format(1)})
    assert (work["lowered"], work["trees"], work["tables"]) == (1, 1, 0)
    assert 40 < work["steps"] < 1_000


def test_work_grows_with_the_loops(tmp_path: Path, work: Counter[str]) -> None:
    """Each loop is run by itself, after the definitions of the file, which are a step each."""
    check(tmp_path, {"train.py": LOOP.format(1)})
    one = work["steps"]
    work.clear()
    check(tmp_path, {"train.py": "".join(LOOP.format(at) for at in range(8))})
    assert 6 * one < work["steps"] < 16 * one
    assert (work["lowered"], work["trees"]) == (1, 1)


def test_a_module_that_others_follow_is_read_once(tmp_path: Path, work: Counter[str]) -> None:
    """Ten files import the one that trains: itself it is read twice, as a checked file and as a followed one."""
    users = {
        f"user_{at}.py": f"from train import train_1\n\nfor step in range({at}):\n    train_1(model, loader)\n"
        for at in range(10)
    }
    check(tmp_path, {"train.py": LOOP.format(1), **users})
    assert work["lowered"] == 12
    assert work["trees"] <= 13
