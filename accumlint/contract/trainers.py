"""Trainers whose `compute_loss` ignores `num_items_in_batch` (ACC105).

Two questions, in this order. Does the count reach anything? That is read off the syntax: a use of the parameter, or of
the `**kwargs` that hold it. If it does not: is the returned loss a mean over tokens? That is read off the value which
the interpreter returns from `compute_loss`, run as the Trainer would call it. A mean over examples or pairs is meant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from accumlint.apis.language import Count
from accumlint.apis.registry import Registry
from accumlint.contract.classes import ClassView, FileNames, configured_steps
from accumlint.contract.verdict import Clause, Confidence, Evidence, Violation
from accumlint.reading import ir
from accumlint.reading.asked_versions import asks_version
from accumlint.reading.program import Module
from accumlint.reading.project import FOREIGN, Project
from accumlint.reading.walk import all_statements, dotted, walk
from accumlint.semantics.machine import Program
from accumlint.semantics.numbers import Num
from accumlint.semantics.relevance import Relevance
from accumlint.semantics.returned import Returned, run_method
from accumlint.semantics.similarity import PRODUCT
from accumlint.semantics.values import Site

METHOD = "compute_loss"
COUNT = "num_items_in_batch"
HIDDEN = "the model's own loss is a mean over tokens"
_LIBRARIES = ("transformers", "trl", "adapters", "optimum")
_SWITCHES = frozenset({"model_accepts_loss_kwargs", "loss_is_scaled_for_ga", "accepts_loss_kwargs"})
_OWN_DIVISION = frozenset({"current_gradient_accumulation_steps", "gradient_accumulation_steps"})
_SHOWS = frozenset({"log", "print", "info", "debug", "warning", "warn", "add_scalar"})
_OWN_COUNT = ("get_batch_samples", "_get_num_items_in_batch")
_TOKENS = re.compile(
    r"(CausalLM|Seq2SeqLM|MaskedLM|LMHeadModel|TokenClassification|ForConditionalGeneration|LanguageModeling"
    r"|ForSeq2Seq|SFTTrainer|Seq2SeqTrainer|FastLanguageModel)"
)
_FLAT = re.compile(r"\.(view|reshape|flatten)\b|\[\[\.\.\.\]\]|1:")
_POSITIONS = re.compile(r"transpose|permute|\.mT\b|swapaxes|flatten|reshape\(-1|view\(-1")
_OF_ROWS = re.compile(r"num_labels|num_classes|n_classes|num_class|(view|reshape)\(-1, \d")
_ROWS = re.compile(r"(Sequence|Image|Audio|Video)Classification|MultipleChoice")
_COUNTS = re.compile(r"sum\(|numel|count|len\(|tokens")
_SELECTED = re.compile(r"\]\.(nan)?mean\(")
_LOSS_NAME = re.compile(r"cross_entropy|nll_loss|loss|criterion|CrossEntropy", re.IGNORECASE)
_OWN_LOSS = frozenset({".loss", "[0]", "['loss']"})


def check_trainers(module: Module, registry: Registry, project: Project | None = None) -> list[Violation]:
    """Every `compute_loss` of a Trainer that returns a mean over tokens and lets no count reach it."""
    if not any(isinstance(node, ir.Function) and node.name == METHOD for node in all_statements(module.body)):
        return []
    names = FileNames.of(module, project)
    file = _File.of(module, registry)
    found: dict[ir.NodeId, Violation] = {}
    for definition in names.classes.values():
        view = names.view(definition)
        function = view.method(METHOD)
        if function is None or function.node in found or function.node >= FOREIGN:
            continue
        if not is_trainer(view, registry) or _divides_itself(view, file):
            continue
        how = how_ignored(function)
        if how and not _only_hands_on(function):
            violation = _judge(view, function, how, file)
            if violation is not None:
                found[function.node] = violation
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _File:
    """What the whole file says: names that speak of tokens or rows, switches of the Trainer, checks of its version."""

    module: Module
    registry: Registry
    tokens: Evidence | None
    ignored: Evidence | None
    rows: bool
    is_switched: bool
    asks_version: bool

    @classmethod
    def of(cls, module: Module, registry: Registry) -> _File:
        tokens = ignored = None
        switched = versioned = rows = False
        for node in module.nodes:
            for word in _words(node):
                rows = rows or bool(_ROWS.search(word))
                if tokens is None and (match := _TOKENS.search(word)):
                    tokens = Evidence(f"the model counts tokens ({match.group(1)})", node.node)
            if ignored is None and isinstance(node, ir.Unary) and node.operator == "-":
                operand = node.operand
                if isinstance(operand, ir.Constant) and operand.value == 100:
                    ignored = Evidence("labels of -100 are not counted", node.node)
            switched |= _is_switch(node)
            if isinstance(node, (ir.If, ir.Conditional)):
                versioned |= any(asks_version(part, "transformers") for part in walk(node.test))
        return cls(module, registry, tokens, ignored, rows, switched, versioned)


# ------------------------------------------------------------------------------------------- which classes


def is_trainer(view: ClassView, registry: Registry) -> bool:
    """A class derived from a Trainer of transformers, or of a library that builds on it and leaves the loss to it."""
    for base in view.outside:
        library, _, _ = base.partition(".")
        if library not in _LIBRARIES or not base.endswith("Trainer"):
            continue
        name = registry.canonical(base)
        if library == "transformers" and name.startswith("transformers."):
            return True
        last = f"{library}.{base.rpartition('.')[2]}"
        if library != "trl" or registry.attribute(last, "loss_is_scaled_for_ga") is not None:
            return True
    return False


def _divides_itself(view: ClassView, file: _File) -> bool:
    """Whether the class, or the file, settles the division elsewhere, or asks which version is installed."""
    if file.is_switched or file.asks_version or any(view.sets(name) for name in _SWITCHES):
        return True
    if any(view.method(name) is not None for name in _OWN_COUNT):
        return True
    step = view.method("training_step")
    if step is not None and "training_step" not in {
        node.function.name
        for node in walk(step.body)
        if isinstance(node, ir.Call) and isinstance(node.function, ir.Attribute)
    }:
        return True
    scaled = [file.registry.attribute(f"trl.{b.rpartition('.')[2]}", "loss_is_scaled_for_ga") for b in view.outside]
    if any(getattr(value, "value", None) is False for value in scaled):
        return True
    function = view.method(METHOD)
    return function is not None and reads_own_division(function)


def reads_own_division(function: ir.Function) -> bool:
    """Whether a function reads the number of steps, and so may divide by it."""
    return any(isinstance(node, ir.Attribute) and node.name in _OWN_DIVISION for node in walk(function.body))


def _is_switch(node: object) -> bool:
    """`trainer.model_accepts_loss_kwargs = False`, said of any Trainer of the file; what is set on `self` is not."""
    targets = node.targets if isinstance(node, ir.Assign) else ()
    return any(isinstance(t, ir.Attribute) and t.name in _SWITCHES and dotted(t.value) != "self" for t in targets)


def _words(node: object) -> list[str]:
    """The words of a node that can name a model: an imported Trainer alone does not, until a class derives from it."""
    if isinstance(node, ir.Import):
        targets = [target.rpartition(".")[2] for _, target in node.bindings]
        return [name for name in targets if not name.endswith("Trainer")]
    word = _word(node)
    return [word] if word else []


def _word(node: object) -> str | None:
    if isinstance(node, ir.Name):
        return node.id
    if isinstance(node, ir.Attribute):
        return node.name
    if isinstance(node, ir.Constant) and isinstance(node.value, str) and len(node.value) < 80:
        return node.value
    return None


# -------------------------------------------------------------------------------------------- is it ignored


def how_ignored(function: ir.Function) -> str:
    """`missing`, `unused` or `swallowed` (the wordings of the rule); "" if the count reaches anything at all."""
    kinds = {each.name: each.kind for each in function.parameters}
    if COUNT in kinds:
        return "" if _is_read(function, COUNT) else "unused"
    extras = next((name for name, kind in kinds.items() if kind == "**"), None)
    if extras is None:
        return "missing"
    return "" if _hands_on_extras(function, extras) else "swallowed"


def _is_read(function: ir.Function, name: str) -> bool:
    """Whether a name is read, other than to throw it away or to show it."""
    idle: set[int] = set()
    for node in walk(function.body):
        if isinstance(node, ir.Evaluate) and isinstance(node.value, ir.Call):
            if (dotted(node.value.function) or "").rpartition(".")[2] in _SHOWS:
                idle.update(id(part) for part in walk(node.value))
        elif isinstance(node, ir.Delete):
            idle.update(id(part) for target in node.targets for part in walk(target))
        elif isinstance(node, ir.Assign) and all(dotted(target) == "_" for target in node.targets):
            idle.update(id(part) for part in walk(node.value))
    return any(isinstance(n, ir.Name) and n.id == name and id(n) not in idle for n in walk(function.body))


def _hands_on_extras(function: ir.Function, extras: str) -> bool:
    """Whether the kwargs, with the count still among them, go anywhere, or the count is taken out of them."""
    idle: set[int] = set()
    removed = False
    for node in walk(function.body):
        if isinstance(node, ir.Evaluate) and _takes(node.value, extras) == COUNT:
            removed = True
            idle.update(id(part) for part in walk(node.value))
        elif (key := _takes(node, extras)) is not None and key != COUNT:
            idle.update(id(part) for part in walk(node))
    reads = [node for node in walk(function.body) if id(node) not in idle]
    if any(isinstance(node, ir.Constant) and node.value == COUNT for node in reads):
        return True
    return not removed and any(isinstance(node, ir.Name) and node.id == extras for node in reads)


def _takes(node: object, extras: str) -> str | None:
    """The key that `kwargs.get("key")`, `kwargs.pop("key", None)` or `kwargs["key"]` looks at."""
    if isinstance(node, ir.Call) and dotted(node.function) in (f"{extras}.get", f"{extras}.pop"):
        return _first_word(node)
    if isinstance(node, ir.Subscript) and dotted(node.value) == extras and isinstance(node.index, ir.Constant):
        return str(node.index.value)
    return None


def _first_word(call: ir.Call) -> str | None:
    value = call.arguments[0].value if call.arguments else None
    return value.value if isinstance(value, ir.Constant) and isinstance(value.value, str) else None


def _only_hands_on(function: ir.Function) -> bool:
    """A body that is `return super().compute_loss(...)` adds nothing of its own."""
    body = [each for each in function.body if not _is_docstring(each)]
    if len(body) != 1 or not isinstance(body[0], ir.Return) or not isinstance(body[0].value, ir.Call):
        return False
    called = body[0].value.function
    return isinstance(called, ir.Attribute) and called.name == METHOD


def _is_docstring(statement: ir.Statement) -> bool:
    return isinstance(statement, ir.Evaluate) and isinstance(statement.value, ir.Constant)


# --------------------------------------------------------------------------------------- is it over tokens


def _judge(view: ClassView, function: ir.Function, how: str, file: _File) -> Violation | None:
    body = file.module.body
    if not any(statement is view.definition for statement in body):  # in a function, or under an `if`
        body = (*body, view.definition)
    program = Program(replace(file.module, body=body), file.registry, Relevance.of(walk(body)))
    returned = run_method(program, view.definition, function, {"return_outputs": False}, data="inputs")
    if returned is None:
        return None
    calls = _loss_calls(view, function)
    written = " ".join(file.module.syntax.text(call) for call in calls if call < FOREIGN)
    if any(call >= FOREIGN for call in calls):
        file = replace(file, rows=True)  # what a base in another file does to the labels has no text here
    model = function.parameters[1].name if len(function.parameters) > 1 else "model"
    evidence, assumptions = _evidence(returned, written, model, file)
    if evidence is None:
        return None
    return Violation(
        Clause.IGNORED_ITEM_COUNT,
        function.node,
        detail=how,
        steps=configured_steps(file.module),
        evidence=(evidence,),
        assumptions=assumptions,
        confidence=Confidence.ASSUMED if assumptions else Confidence.PROVED,
    )


def _loss_calls(view: ClassView, function: ir.Function) -> list[ir.NodeId]:
    """The calls of losses in the method and in methods of its class that it calls: their arguments show positions."""
    found: list[ir.NodeId] = []
    for node in walk(function.body):
        if not isinstance(node, ir.Call):
            continue
        name = dotted(node.function) or ""
        if name.startswith("self.") and (helper := view.method(name[5:])) is not None and helper is not function:
            found += [each.node for each in walk(helper.body) if isinstance(each, ir.Call) and _is_loss_call(each)]
        elif _is_loss_call(node):
            found.append(node.node)
    return found


def _is_loss_call(call: ir.Call) -> bool:
    called = call.function.function if isinstance(call.function, ir.Call) else call.function
    return bool(_LOSS_NAME.search(dotted(called) or ""))


def _evidence(returned: Returned, written: str, model: str, file: _File) -> tuple[Evidence | None, tuple[str, ...]]:
    """Why the returned loss is a mean over tokens, and what that rests on; `written` is the text of its loss calls."""
    for site, coefficient in returned.terms:
        evidence = _token_mean(site, coefficient, written, file)
        if evidence is not None:
            return evidence, ()
    hidden = [site.text for site, _ in returned.terms if site.reduction == "unknown"] + list(returned.hidden)
    if any("label_smoother(" in text for text in hidden) and (file.tokens is not None or not file.rows):
        return Evidence("the label smoother divides by the targets that are not ignored"), ()
    if any(is_model_loss(text, model) for text in hidden):
        return file.tokens, (HIDDEN,)
    return None, ()


def is_model_loss(path: str, model: str) -> bool:
    """Whether a term of an access path is the loss that a call of the model, or of the base Trainer, returns."""
    ends = {f"{model}(": _OWN_LOSS, "super().compute_loss(": _OWN_LOSS | {""}}
    depth = start = 0
    for place, letter in enumerate(path + " "):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == " " and depth == 0:
            term = path[start:place]
            start = place + 1
            if any(term.startswith(call) and _after_call(term, len(call)) in rest for call, rest in ends.items()):
                return True
    return False


def _after_call(term: str, place: int) -> str | None:
    """What follows the call whose arguments begin at `place`."""
    depth = 1
    for end in range(place, len(term)):
        depth += (term[end] == "(") - (term[end] == ")")
        if depth == 0:
            return term[end + 1 :]
    return None


def _token_mean(site: Site, coefficient: Num, written: str, file: _File) -> Evidence | None:
    if not site.separable or any(fact.name == PRODUCT for fact in site.facts):
        return None
    if site.reduction == "sum":
        counted = divides_by_own_count(site, coefficient) and _COUNTS.search(coefficient.text)
        return Evidence("each microbatch divides by its own count", site.node) if counted else None
    if site.reduction != "mean" and site.reduction != "batchmean":
        return None
    facts = {fact.name: fact for fact in site.facts}
    if site.count is Count.WEIGHTED_TARGETS or "class weights" in facts:
        return Evidence("the loss divides by the class weights of the targets present", site.node)
    if "ignore_index" in facts:
        return Evidence("targets equal to ignore_index are not counted", site.node)
    if "selection" in facts and (site.call or _SELECTED.search(site.text)):
        return Evidence("the loss is taken over selected elements only", facts["selection"].node)
    if site.count is Count.VALID_TARGETS and site.call:
        return _index_targets(site, written, file)
    return None


def divides_by_own_count(site: Site, coefficient: Num) -> bool:
    """Whether a sum is divided by a count of the microbatch's own: a mean that is written out."""
    varies = len({value for value in coefficient.at if value is not None}) > 1
    return site.reduction == "sum" and varies and "/" in coefficient.text


def _index_targets(site: Site, written: str, file: _File) -> Evidence | None:
    """Class indices with one target a position, not one a row."""
    target = dict(site.arguments).get("target", "")
    if not _FLAT.search(target) and not _POSITIONS.search(written):
        return None
    if "[[...]]" in target:
        return Evidence("labels are shifted, and those of -100 are not counted", site.node)
    if file.rows or _OF_ROWS.search(written):  # `view(-1, num_labels)` is written for one label a row, too
        return file.ignored if file.ignored is not None else file.tokens
    return Evidence("targets are flattened, and those of -100 are not counted", site.node)
