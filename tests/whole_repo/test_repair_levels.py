"""`scripts/repair_levels.py`: what it counts of two files, by code, level and reason."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
SAFE = """import torch


def train(model, loader, optimizer, steps):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x), y, ignore_index=-100) / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
UNKNOWN = SAFE.replace("import torch\n", "import torch\nfrom accelerate import Accelerator\n")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("repair_levels_script", ROOT / "scripts" / "repair_levels.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_two_files_are_counted_by_kind_level_and_reason(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "safe.py").write_text(SAFE)
    (tmp_path / "unknown.py").write_text(UNKNOWN)
    assert script.main([str(tmp_path), "--jobs", "1"]) == 0
    plain, accelerate = capsys.readouterr().out.split("## accelerate")
    assert "| ACC101 | 1 | 0 | 0 | 0 | 1 | 100 % |" in plain
    assert "| ACC107 | 0 | 0 | 0 | 1 | 1 | 0 % |" in accelerate
    assert "- 2 none (ACC101, ACC107): which accelerator drives its backward is not plain" in accelerate
    assert "| all | 2 | 0 | 0 | 0 | 2 | 100 % |" in plain


def test_a_file_is_of_the_kind_of_its_imports(script: ModuleType) -> None:
    assert script.kind_of("import torch\nfrom accelerate import Accelerator\n") == "accelerate"
    assert script.kind_of("from accelerate import Accelerator\nimport deepspeed\n") == "framework"
    assert script.kind_of("from transformers import AutoModel\n") == "plain"
    assert script.kind_of("from transformers import Seq2SeqTrainer\n") == "framework"
    assert script.kind_of("from .accelerate import Accelerator\n") == "plain"
    assert script.kind_of("not python") == "plain"
