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


BASE = """
    class BaseTrainer:
        def __init__(self, config, model, optimizer, loader):
            self.config, self.model, self.optimizer, self.loader = config, model, optimizer, loader
            self.micro = 0

        def forward_loss(self, batch):
            raise NotImplementedError

        def fit(self):
            for epoch in range(self.config.epochs):
                self.optimizer.zero_grad()
                for batch in self.loader:
                    loss = self.forward_loss(batch)
                    self.backward(loss)
                    self.micro += 1
                    if self.micro % self.config.accum == 0:
                        self.update()

        def backward(self, loss):
            (loss / self.config.accum).backward()

        def update(self):
            self.optimizer.step()
            self.optimizer.zero_grad()
    """
COLLATION = """
    import torch
    from torch.utils.data import DataLoader

    def collate(items):
        xs, ys = zip(*items)
        pad = torch.nn.utils.rnn.pad_sequence
        return pad(xs, batch_first=True), pad(ys, batch_first=True, padding_value=-100)

    def make_loader(data, size):
        return DataLoader(data, batch_size=size, collate_fn=collate, drop_last=True)
    """
TAGGER = """
    import torch.nn.functional as F
    from base import BaseTrainer
    from collation import make_loader

    class Tagger(BaseTrainer):
        def forward_loss(self, batch):
            x, y = batch
            return F.cross_entropy(self.model(x).flatten(0, 1), y.flatten())
    """
MAIN = """
    def main(config, model, optimizer, data):
        Tagger(config, model, optimizer, make_loader(data, config.size)).fit()
    """


def write_subclass(root: Path, tagger: str, base: str = BASE, collation: str = COLLATION) -> Path:
    """A base trainer with the loop, a subclass with the loss and a loader, a file each; the path of the subclass."""
    (root / "pyproject.toml").write_text("")
    for name, text in {"base": base, "collation": collation, "tagger": tagger}.items():
        (root / f"{name}.py").write_text(textwrap.dedent(text).lstrip())
    open_project.cache_clear()
    return root / "tagger.py"


def found_in(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text().splitlines()
    return [(finding.code, lines[finding.span.line - 1].strip()) for finding in check(path).findings]


LOSS_LINE = "return F.cross_entropy(self.model(x).flatten(0, 1), y.flatten())"


def test_a_loss_is_judged_in_the_loop_of_a_base_class(tmp_path: Path) -> None:
    """It is reported once, where the checked file has it: that the targets are padded is a third file's to say."""
    path = write_subclass(tmp_path, TAGGER + MAIN)
    assert found_in(path) == [("ACC101", LOSS_LINE)]
    report = check_source(SourceText.from_path(path), Options(repair=True))
    assert report.findings[0].fix is None
    assert report.findings[0].unfixable == "its loop stands in another file"


def test_a_subclass_is_run_where_its_file_does_not_make_one(tmp_path: Path) -> None:
    assert found_in(write_subclass(tmp_path, TAGGER)) == [("ACC102", LOSS_LINE)]


def test_each_subclass_is_run(tmp_path: Path) -> None:
    second = "\n" + TAGGER[TAGGER.index("    class") :].replace("Tagger", "Parser").replace(
        "x, y = batch", "x, y = batch[:2]"
    )
    found = found_in(write_subclass(tmp_path, TAGGER + second))
    assert found == [("ACC102", LOSS_LINE)] * 2


@pytest.mark.parametrize(
    ("tagger", "base", "collation"),
    [
        (TAGGER + MAIN, BASE, COLLATION.replace(", padding_value=-100", "")),
        (
            TAGGER.replace("y.flatten())", 'y.flatten(), reduction="sum")'),
            BASE.replace("(loss / self.config.accum)", "loss"),
            COLLATION,
        ),
        (TAGGER.replace("forward_loss", "evaluate"), BASE, COLLATION),
        (TAGGER, BASE.replace("self.micro % self.config.accum == 0", "True"), COLLATION),
    ],
    ids=["whole batches of equal counts", "sums", "the loss is not the subclass's", "one step a batch"],
)
def test_a_right_subclass_stays_silent(tmp_path: Path, tagger: str, base: str, collation: str) -> None:
    assert "ACC101" not in dict(found_in(write_subclass(tmp_path, tagger, base, collation)))
    assert "ACC102" not in dict(found_in(tmp_path / "tagger.py"))
