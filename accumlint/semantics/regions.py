"""Regions: which code of a file is run by itself, because it reaches a backward: a script, a function, a method.

Found by names alone, before anything is run. A function that others call comes after its callers, who give it real
arguments; the project's modules that a file imports count as long as they have a part in training.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accumlint.reading import ir
from accumlint.reading.program import Module
from accumlint.reading.walk import all_statements, dotted, walk
from accumlint.semantics.machine import Program
from accumlint.semantics.outline import Outline, OutlinedFunction, outline_of


@dataclass(frozen=True, slots=True)
class Region:
    """A piece of code that is run. `kind` is "script", "function", "method", or "returned": a framework backpropagates
    what the method returns."""

    name: str
    kind: str
    function: ir.Function | None = None
    owner: ir.Class | None = None
    backwards: frozenset[ir.NodeId] = frozenset()
    node: ir.NodeId = -1
    losses: frozenset[ir.NodeId] = frozenset()  # of a class that inherits its loop: who made them has run it


@dataclass(eq=False, slots=True)
class _Candidate:
    """A function that may be run, with what it reaches in the program that is looked at."""

    outlined: OutlinedFunction
    reach: set[ir.NodeId]
    callers: int = 0


def find_regions(program: Program) -> list[Region]:
    """Everything that reaches a backward, callers before what they call; the script itself first."""
    home = _outline(program, program.module)
    imported = _imported_modules(program, home)
    outlines = [home, *(_outline(program, module) for module in imported)]
    for module, outline in zip(imported, outlines[1:], strict=True):
        program.relevance.extend(module.body, outline.definitions)
    by_name: dict[str, list[_Candidate]] = {}
    candidates = [[_Candidate(each, set(each.backwards)) for each in outline.functions] for outline in outlines]
    for candidate in (c for each in candidates for c in each):
        by_name.setdefault(candidate.outlined.function.name, []).append(candidate)
    for alias, name in (pair for outline in outlines for pair in outline.aliases if pair[1] in by_name):
        by_name.setdefault(alias, []).extend(each for each in by_name[name] if each not in by_name.get(alias, ()))
    _spread([c for each in candidates for c in each], by_name)
    relevant = [c for c in candidates[0] if c.reach]
    for candidate in relevant:
        for name in candidate.outlined.calls:
            for called in by_name.get(name, []):
                if called.reach and called is not candidate:
                    called.callers += 1
    relevant.sort(key=lambda c: (c.outlined.outer is not None, c.callers > 0, -len(c.reach)))
    regions = [
        _region(c.outlined, "method" if c.outlined.owner is not None else "function", frozenset(c.reach))
        for c in relevant
        if c.outlined.outer is None
    ]
    regions += _inherited(program, imported, candidates)
    regions += _returning(program, candidates[0])
    by_script = {n for name in home.script_calls for candidate in by_name.get(name, ()) for n in candidate.reach}
    script = home.script_backwards | by_script
    if script:
        regions.insert(0, Region("<script>", "script", None, None, script))
    return regions


def _inherited(program: Program, imported: list[Module], candidates: list[list[_Candidate]]) -> list[Region]:
    """Methods that a class of the file inherits from one of another file, where they run the backward and call what the
    class defines: a base trainer's `fit`, whose loss is the subclass's."""
    project, module = program.project, program.module
    if project is None or not imported:
        return []
    statements = list(all_statements(module.body))
    targets = {name: target for each in statements if isinstance(each, ir.Import) for name, target in each.bindings}
    places = {each.filename: place for place, each in enumerate(imported, 1)}
    regions: list[Region] = []
    for definition in (each for each in statements if isinstance(each, ir.Class)):
        for base in definition.bases:
            root, dot, rest = (dotted(base) or "").partition(".")
            found = project.resolve(targets[root] + dot + rest, module.filename) if root in targets else None
            if found is not None and found[0].filename in places:
                regions += _inherited_from(definition, found[1], candidates[places[found[0].filename]])
    return regions


def _inherited_from(definition: ir.Class, base: str, candidates: list[_Candidate]) -> Iterator[Region]:
    """Those of one base, by its name in its module: what no method of it calls, and the class leaves as it is."""
    methods = [each for each in candidates if each.outlined.owner is not None and each.outlined.owner.name == base]
    called = frozenset[str]().union(*(each.outlined.calls for each in methods))
    own = {each.name for each in definition.body if isinstance(each, ir.Function)}
    if called.isdisjoint(own):
        return
    nodes = frozenset(node.node for node in walk(definition.body))
    for each in methods:
        function = each.outlined.function
        if each.reach and function.name not in called | own:
            name = f"{definition.name}.{function.name}"
            yield Region(name, "method", function, definition, frozenset(each.reach), definition.node, nodes)


def _region(outlined: OutlinedFunction, kind: str, backwards: frozenset[ir.NodeId]) -> Region:
    function, owner = outlined.function, outlined.owner
    name = function.name if owner is None else f"{owner.name}.{function.name}"
    return Region(name, kind, function, owner, backwards, function.node)


def _outline(program: Program, module: Module) -> Outline:
    """What a module's text says about it; one of the project that is followed is read for it once a run."""
    if program.project is None or module is program.module:
        return outline_of(module)
    return program.project.summary(module, outline_of)


def _imported_modules(program: Program, home: Outline) -> list[Module]:
    """The modules of the project that have a part in training, of those that the checked file imports from, directly or
    through each other."""
    found: dict[str, Module] = {}
    todo = [(program.module, home)]
    while todo and program.project is not None and len(found) < IMPORTED:
        module, outline = todo.pop(0)
        for target in outline.imports:
            if not program.project.may_train(target, module.filename):
                continue
            resolved = program.project.resolve(target, module.filename)
            if resolved is not None and resolved[0].filename not in found:
                found[resolved[0].filename] = resolved[0]
                todo.append((resolved[0], _outline(program, resolved[0])))
    return list(found.values())


IMPORTED = 12
ACCUMULATION_SETTINGS = ("accumulate_grad_batches",)
"""Settings of a framework's own trainer that turn accumulation on; a file must name one to be judged by it."""


def _returning(program: Program, candidates: list[_Candidate]) -> list[Region]:
    """Methods whose returned loss a framework backpropagates, where the file turns accumulation on or divides by it."""
    named = program.relevance.keywords & set(ACCUMULATION_SETTINGS)
    methods = [c.outlined for c in candidates if not c.reach and c.outlined.owner is not None]
    steps = [each for each in methods if each.function.name == "training_step"]
    return [_region(each, "returned", frozenset()) for each in steps if named or _divides_by_setting(each.function)]


def _divides_by_setting(function: ir.Function) -> bool:
    """Whether a method divides by the number of steps of the framework that calls it."""
    found = divisors(walk(function.body))
    return any(isinstance(each, ir.Attribute) and each.name in ACCUMULATION_SETTINGS for each in found)


def divisors(nodes: Iterable[object]) -> list[ir.Expression]:
    """What is divided by, in an expression or in place."""
    return [
        node.right if isinstance(node, ir.Binary) else node.value
        for node in nodes
        if isinstance(node, (ir.Binary, ir.Augment)) and node.operator == "/"
    ]


def _spread(candidates: list[_Candidate], by_name: dict[str, list[_Candidate]]) -> None:
    """What each function reaches, through calls by name: from the called to their callers, until nothing is new."""
    callers: dict[str, list[_Candidate]] = {}
    for candidate in candidates:
        for name in candidate.outlined.calls:
            if name in by_name:
                callers.setdefault(name, []).append(candidate)
    names: dict[int, list[str]] = {}
    for name in callers:
        for called in by_name[name]:
            names.setdefault(id(called), []).append(name)
    pending = [candidate for candidate in candidates if candidate.reach]
    while pending:
        called = pending.pop()
        for name in names.get(id(called), ()):
            for caller in callers[name]:
                if not called.reach <= caller.reach:
                    caller.reach |= called.reach
                    pending.append(caller)
