"""What is judged of classes rather than of loops: model heads and Trainers, whose loop is the library's."""

from __future__ import annotations

from accumlint.apis.registry import load
from accumlint.contract.heads import check_heads
from accumlint.contract.trainers import check_trainers
from accumlint.contract.training_steps import check_steps
from accumlint.contract.verdict import Violation
from accumlint.reading.program import Module


def judge_classes(module: Module) -> list[Violation]:
    """The violations of all classes of a module."""
    registry = load()
    return check_heads(module, registry) + check_trainers(module, registry) + check_steps(module, registry)
