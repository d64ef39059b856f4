"""A trainer whose loss, backward, step and loop are methods in three files is one loop, however it is imported."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from accumlint.analysis import Options, check_source
from accumlint.findings import FileReport
from accumlint.reading.project import open_project
from accumlint.source.text import SourceText

LOSSES = """
    import torch.nn.functional as F

    class Losses:
        def train_step(self, batch):
            logits = self.model(batch["ids"])
            return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=0)
    """
OPTIMIZATION = """
    import torch

    {import_losses}

    class Optimization(Losses):
        def backward(self, loss):
            (loss / self.args.accumulation_steps).backward()

        def optim_step(self):
            {clip}
            self.optimizer.step()
            self.optimizer.zero_grad()
    """
CLIP = "torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)"
TRAINER = """
    import torch
    from torch.utils.data import DataLoader
    {import_optimization}

    class Trainer(Optimization):
        def __init__(self, model, data, args):
            self.model = model
            self.args = args
            self.optimizer = torch.optim.AdamW(model.parameters())
            self.loader = DataLoader(data, batch_size=4)

        def fit(self):
            for epoch in range(self.args.epochs):
                for index, batch in enumerate(self.loader):
                    self.backward(self.train_step(batch))
                    if (index + 1) % self.args.accumulation_steps == 0:
                        self.optim_step()
    """
LAYOUTS = {
    "relative": ("tool", "from .losses import Losses", "from .optimization import Optimization"),
    "absolute": ("tool", "from tool.losses import Losses", "from tool.optimization import Optimization"),
    "src": (
        "src/tool",
        "from tool.losses import Losses",
        "from tool.optimization import Optimization",
    ),
    "re-exported": ("tool", "from . import Losses", "from tool import Optimization"),
    "star": ("tool", "from .losses import *", "from .optimization import *"),
    "namespace": (
        "space/tool",
        "from space.tool.losses import Losses",
        "from space.tool.optimization import Optimization",
    ),
    "beside": ("", "from losses import Losses", "from optimization import Optimization"),
    "cyclic": ("tool", "from . import trainer\nfrom .losses import Losses", "from .optimization import Optimization"),
}
PASSING_ON = """\
try:
    from .losses import Losses
except ImportError:
    Losses = None
from .optimization import *
"""
INIT = {"re-exported": PASSING_ON, "namespace": None, "beside": None}


def write(root: Path, layout: str, clip: str = CLIP) -> Path:
    """A project of three files; the path of the one that holds the loop."""
    folder, losses, optimization = LAYOUTS[layout]
    package = root / folder
    package.mkdir(parents=True, exist_ok=True)
    (root / "pyproject.toml").write_text("")
    init = INIT.get(layout, "")
    if init is not None:
        (package / "__init__.py").write_text(init)
    texts = {
        "losses": textwrap.dedent(LOSSES),
        "optimization": textwrap.dedent(OPTIMIZATION).format(import_losses=losses, clip=clip),
        "trainer": textwrap.dedent(TRAINER).format(import_optimization=optimization),
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text.lstrip())
    open_project.cache_clear()
    return package / "trainer.py"


def check(path: Path) -> FileReport:
    return check_source(SourceText.from_path(path), Options())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_three_files_are_one_loop(layout: str, tmp_path: Path) -> None:
    """Weights are reported at the call that leads to the backward, the leftover at the boundary, in the loop's file."""
    path = write(tmp_path, layout)
    lines = path.read_text().splitlines()
    found = {(finding.code, lines[finding.span.line - 1].strip()) for finding in check(path).findings}
    assert found == {
        ("ACC101", "self.backward(self.train_step(batch))"),
        ("ACC304", "if (index + 1) % self.args.accumulation_steps == 0:"),
    }


def test_a_method_of_another_file_changes_the_verdict(tmp_path: Path) -> None:
    """The division in the base class is what makes the means equal: without it they are summed."""
    path = write(tmp_path, "relative")
    base = path.with_name("optimization.py")
    base.write_text(base.read_text().replace("(loss / self.args.accumulation_steps)", "loss"))
    open_project.cache_clear()
    assert {finding.code for finding in check(path).findings} == {"ACC103", "ACC304"}


def test_a_repair_leaves_the_other_files_alone(tmp_path: Path) -> None:
    """What would have to change in another file is not repaired; nothing is written outside of the named file."""
    path = write(tmp_path, "relative")
    before = {each.name: each.read_text() for each in path.parent.iterdir() if each.suffix == ".py"}
    command = [sys.executable, "-m", "accumlint", "check", "--isolated", "--no-cache", "--fix", str(path)]
    subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    after = {each.name: each.read_text() for each in path.parent.iterdir() if each.suffix == ".py"}
    assert {name for name in before if before[name] != after[name]} <= {path.name}
    open_project.cache_clear()
    assert {finding.code for finding in check(path).findings} <= {"ACC101", "ACC304"}
    compile(after[path.name], str(path), "exec")
