"""What is judged of classes rather than of loops: model heads and Trainers, whose loop is the library's."""

from __future__ import annotations

from accumlint.apis.registry import load
from accumlint.contract.heads import check_heads
from accumlint.contract.loss_functions import check_loss_functions
from accumlint.contract.trainers import check_trainers
from accumlint.contract.verdict import Violation
from accumlint.reading.program import Module
from accumlint.reading.project import project_of


def judge_classes(module: Module) -> list[Violation]:
    """The violations of all classes of a module."""
    registry = load()
    trainers = check_trainers(module, registry, project_of(module.filename))
    return check_heads(module, registry) + trainers + check_loss_functions(module, registry)
