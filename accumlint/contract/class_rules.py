"""What is judged of classes rather than of loops: model heads and Trainers, whose loop is the library's."""

from __future__ import annotations

from accumlint.apis.registry import load_for
from accumlint.contract.heads import check_heads
from accumlint.contract.loss_functions import check_loss_functions
from accumlint.contract.trainers import METHOD, check_trainers
from accumlint.contract.verdict import Violation
from accumlint.reading.program import Module
from accumlint.reading.project import project_of

TRAINER = "transformers.Trainer"


def judge_classes(module: Module) -> list[Violation]:
    """The violations of all classes of a module."""
    project = project_of(module.filename)
    registry = load_for(project)
    if registry.returned(TRAINER, METHOD) is None:
        return []  # the project allows only versions of transformers whose Trainer counts nothing
    trainers = check_trainers(module, registry, project)
    return check_heads(module, registry) + trainers + check_loss_functions(module, registry)
