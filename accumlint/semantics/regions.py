"""Regions: which code of a file is run by itself, because it reaches a backward: a script, a function, a method.

Found by names alone, before anything is run. A function that others call comes after its callers, who give it real
arguments; the project's modules that a file imports count as long as they have a part in training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from accumlint.reading import ir
from accumlint.reading.program import Module
from accumlint.reading.walk import children, walk
from accumlint.semantics.machine import Program
from accumlint.semantics.relevance import called_name, followed_name, nodes_of

BACKWARDS = frozenset({"backward", "manual_backward"})
STEPPERS = frozenset({"loss_scaler"})


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


@dataclass(slots=True)
class _Candidate:
    function: ir.Function
    owner: ir.Class | None
    outer: ir.Function | None
    own: frozenset[ir.NodeId]
    calls: frozenset[str]
    reach: set[ir.NodeId] = field(default_factory=set)
    callers: int = 0


def find_regions(program: Program) -> list[Region]:
    """Everything that reaches a backward, callers before what they call; the script itself first."""
    candidates = list(_candidates(program.module.body))
    imported = _imported_modules(program)
    for module in imported:
        program.relevance.extend(module.body)
    foreign = [c for module in imported for c in _candidates(module.body)]
    by_name: dict[str, list[_Candidate]] = {}
    for candidate in (*candidates, *foreign):
        by_name.setdefault(candidate.function.name, []).append(candidate)
    for module in (program.module, *imported):
        for alias, name in _aliases(module.body, by_name):
            by_name.setdefault(alias, []).extend(each for each in by_name[name] if each not in by_name.get(alias, ()))
    _spread([*candidates, *foreign], by_name)
    relevant = [c for c in candidates if c.reach]
    for candidate in relevant:
        for name in candidate.calls:
            for called in by_name.get(name, []):
                if called.reach and called is not candidate:
                    called.callers += 1
    relevant.sort(key=lambda c: (c.outer is not None, c.callers > 0, -len(c.reach)))
    regions = [
        Region(
            f"{c.owner.name}.{c.function.name}" if c.owner is not None else c.function.name,
            "method" if c.owner is not None else "function",
            c.function,
            c.owner,
            frozenset(c.reach),
            c.function.node,
        )
        for c in relevant
        if c.outer is None
    ]
    regions += _returning(program, candidates)
    script = frozenset(_backwards(program.module.body)) | _reached_by_script(program.module.body, by_name)
    if script:
        regions.insert(0, Region("<script>", "script", None, None, script))
    return regions


def _aliases(body: tuple[ir.Statement, ...], known: Mapping[str, object]) -> list[tuple[str, str]]:
    """(name, function) where a function is given another name: `self.run = self._run`, `step = partial(f, ...)`."""
    found: list[tuple[str, str]] = []
    for node in walk(body):
        if not isinstance(node, ir.Assign):
            continue
        names = [name for value in _alternatives(node.value) if (name := _last_name(value)) in known]
        targets = [_last_name(target) for target in node.targets]
        found += [(target, name) for target in targets for name in names if target and target != name]
    return found


def _alternatives(value: ir.Expression) -> list[ir.Expression]:
    """What a value may be: either side of a conditional, what a call (`partial`, `torch.compile`) is given first."""
    if isinstance(value, ir.Conditional):
        return [*_alternatives(value.body), *_alternatives(value.orelse)]
    if isinstance(value, ir.Call):
        return [value.arguments[0].value] if value.arguments else []
    return [value]


def _last_name(value: ir.Expression) -> str:
    if isinstance(value, ir.Attribute):
        return value.name
    return value.id if isinstance(value, ir.Name) else ""


def _imported_modules(program: Program) -> list[Module]:
    """The modules of the project that have a part in training, of those that the checked file imports from, directly or
    through each other."""
    found: dict[str, Module] = {}
    todo = [program.module]
    while todo and program.project is not None and len(found) < IMPORTED:
        module = todo.pop(0)
        for node in walk(module.body):
            for _, target in node.bindings if isinstance(node, ir.Import) else ():
                if not program.project.may_train(target, module.filename):
                    continue
                resolved = program.project.resolve(target, module.filename)
                if resolved is not None and resolved[0].filename not in found:
                    found[resolved[0].filename] = resolved[0]
                    todo.append(resolved[0])
    return list(found.values())


IMPORTED = 12
ACCUMULATION_SETTINGS = ("accumulate_grad_batches",)
"""Settings of a framework's own trainer that turn accumulation on; a file must name one to be judged by it."""


def _returning(program: Program, candidates: list[_Candidate]) -> list[Region]:
    """Methods whose returned loss a framework backpropagates, where the file itself turns accumulation on."""
    named = program.relevance.keywords & set(ACCUMULATION_SETTINGS)
    if not named:
        return []
    return [
        Region(f"{c.owner.name}.{c.function.name}", "returned", c.function, c.owner, frozenset(), c.function.node)
        for c in candidates
        if c.owner is not None and not c.reach and c.function.name == "training_step"
    ]


def _candidates(
    body: tuple[ir.Statement, ...], owner: ir.Class | None = None, outer: ir.Function | None = None
) -> Iterator[_Candidate]:
    for statement in body:
        for node in _definitions(statement):
            if isinstance(node, ir.Class):
                yield from _candidates(node.body, node, outer)
            elif isinstance(node, ir.Function):
                calls = [n for n in walk(node.body) if isinstance(n, ir.Call)]
                own = frozenset(call.node for call in calls if _is_backward(call))
                yield _Candidate(node, owner, outer, own, frozenset(map(followed_name, calls)))
                yield from _candidates(node.body, owner, node)


def _definitions(statement: ir.Statement) -> Iterator[ir.Function | ir.Class]:
    """Functions and classes that a statement defines, directly or in its blocks."""
    if isinstance(statement, ir.Function | ir.Class):
        yield statement
        return
    for part in children(statement):
        if isinstance(part, ir.Statement):
            yield from _definitions(part)


def _backwards(body: tuple[ir.Statement, ...]) -> Iterator[ir.NodeId]:
    for statement in body:
        for node in nodes_of(statement):
            if isinstance(node, ir.Call) and _is_backward(node):
                yield node.node


def _is_backward(call: ir.Call) -> bool:
    return called_name(call) in BACKWARDS or _hides_backward(call)


def _reached_by_script(body: tuple[ir.Statement, ...], by_name: dict[str, list[_Candidate]]) -> frozenset[ir.NodeId]:
    """The backwards of functions that a loop of the script itself calls."""
    found: set[ir.NodeId] = set()
    for statement in body:
        for node in nodes_of(statement):
            if isinstance(node, ir.For | ir.While):
                calls = [n for n in walk(node.body, into_scopes=False) if isinstance(n, ir.Call)]
                names = [followed_name(call) for call in calls]
                found |= {n for name in names for candidate in by_name.get(name, ()) for n in candidate.reach}
    return frozenset(found)


def _hides_backward(call: ir.Call) -> bool:
    """A call of a stepper, which runs backward, clip and step inside (MAE, timm)."""
    return called_name(call) in STEPPERS or any(a.keyword in ("update_grad", "need_update") for a in call.arguments)


def _spread(candidates: list[_Candidate], by_name: dict[str, list[_Candidate]]) -> None:
    """What each function reaches, through calls by name."""
    for candidate in candidates:
        candidate.reach = set(candidate.own)
    changed = True
    rounds = 0
    while changed and rounds < 12:
        changed = False
        rounds += 1
        for candidate in candidates:
            for name in candidate.calls:
                for called in by_name.get(name, []):
                    if not called.reach <= candidate.reach:
                        candidate.reach |= called.reach
                        changed = True
