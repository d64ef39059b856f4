"""Trainers whose own `training_step` backpropagates a mean without dividing it (ACC103).

The Trainer of transformers tells Accelerate of one accumulation step and divides in its own `training_step`; one that
replaces it has to divide, too. A Trainer that hands `num_items_in_batch` to its `training_step` is recent enough.
"""

from __future__ import annotations

from fractions import Fraction

from accumlint.apis.registry import Registry
from accumlint.contract.classes import ClassView, FileNames, configured_steps
from accumlint.contract.trainers import COUNT, asks_version, is_trainer
from accumlint.contract.verdict import Clause, Confidence, Violation
from accumlint.reading import ir
from accumlint.reading.program import Module
from accumlint.reading.walk import walk
from accumlint.semantics.machine import Program
from accumlint.semantics.relevance import Relevance
from accumlint.semantics.returned import run_step
from accumlint.semantics.trace import Event

METHOD = "training_step"
STEPS = "gradient_accumulation_steps"
VERSION = "the Trainer gives Accelerate one accumulation step, as since transformers 4.49"
SAMPLED = 3
"""The number of accumulation steps of the example in the message."""


def check_steps(module: Module, registry: Registry) -> list[Violation]:
    """Every `training_step` of a Trainer that backpropagates a mean over its microbatch as it is."""
    if not any(isinstance(node, ir.Function) and node.name == METHOD for node in walk(module.body)):
        return []
    if any(
        isinstance(node, ir.If) and any(asks_version(part) for part in walk(node.test)) for node in walk(module.body)
    ):
        return []
    names = FileNames.of(module)
    found: list[Violation] = []
    for definition in names.classes.values():
        view = names.view(definition)
        function = view.own_method(METHOD)
        if function is not None and is_trainer(view, registry) and _replaces(function):
            found += _judge(view, function, module, registry)
    return found


def _replaces(function: ir.Function) -> bool:
    """Whether a `training_step` of a recent Trainer does all of the work itself."""
    parameters = [each.name for each in function.parameters]
    calls = [node.function for node in walk(function.body) if isinstance(node, ir.Call)]
    handed_on = any(isinstance(each, ir.Attribute) and each.name == METHOD for each in calls)
    return COUNT in parameters and len(parameters) > 2 and not handed_on


def _judge(view: ClassView, function: ir.Function, module: Module, registry: Registry) -> list[Violation]:
    program = Program(module, registry, Relevance.of(module.body))
    events = run_step(program, view.definition, function, data=function.parameters[2].name)
    steps = configured_steps(module)
    return [
        Violation(
            Clause.NO_DIVISION,
            event.node,
            actual=Fraction(1),
            expected=Fraction(1, steps or SAMPLED),
            window=steps or SAMPLED,
            steps=steps or SAMPLED,
            divisor=str(steps) if steps else f"args.{STEPS}",
            assumptions=(VERSION,),
            confidence=Confidence.ASSUMED,
        )
        for event in events
        if _is_undivided_mean(event)
    ]


def _is_undivided_mean(event: Event) -> bool:
    form = event.form
    if form is None or not form.terms:
        return False
    return all(
        site.reduction == "mean" and coefficient.is_constant and abs(coefficient.constant) == 1
        for site, coefficient in form.terms
    )
