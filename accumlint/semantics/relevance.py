"""Which statements can touch a loss, a gradient or the clock, read off the text.

Undecided branches are forked only where it matters. This is decided without running anything: by the names of the
methods called in a block, and in the functions of the file that it calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from accumlint.reading import ir
from accumlint.reading.walk import walk

EVENT_WORDS = frozenset(
    {
        "backward", "manual_backward", "step", "zero_grad", "clip_grad_norm_", "clip_grad_norm", "clip_grad_value_",
        "clip_gradients", "unscale_", "unscale", "scale", "no_sync", "no_backward_sync", "accumulate", "scale_loss",
        "set_requires_gradient_sync", "scale_grads", "multiply_grads", "backward_step", "set_gradient_divide_factor",
    }
)  # fmt: skip
"""Methods and functions that do something to gradients or clocks, whoever's they are."""

GRADIENT_ATTRIBUTES = frozenset({"grad", "require_backward_grad_sync"})
_EXITS = frozenset({"exit", "_exit", "abort"})


@dataclass(eq=False)
class Relevance:
    """Answers about blocks of one file, remembered by the identity of the block."""

    functions: dict[str, list[ir.Function]]
    keywords: set[str]  # names of keyword arguments given anywhere in the file
    losses: set[str] = field(default_factory=set)  # names that are backpropagated somewhere in the file
    _words: dict[int, frozenset[str]] = field(default_factory=dict)
    _names: dict[int, frozenset[str]] = field(default_factory=dict)
    _tests: dict[int, frozenset[str]] = field(default_factory=dict)
    _jumps: dict[int, bool] = field(default_factory=dict)
    _called: dict[int, frozenset[str]] = field(default_factory=dict)
    _alone: dict[int, tuple[ir.Statement]] = field(default_factory=dict)
    _added: set[int] = field(default_factory=set)
    _kept: list[object] = field(default_factory=list)  # blocks whose identity is a key stay alive

    @classmethod
    def of(cls, body: Iterable[ir.Statement]) -> Relevance:
        functions: dict[str, list[ir.Function]] = {}
        keywords: set[str] = set()
        losses: set[str] = set()
        for statement in body:
            for node in walk(statement):
                if isinstance(node, ir.Function):
                    functions.setdefault(node.name, []).append(node)
                elif isinstance(node, ir.Call):
                    keywords |= {argument.keyword for argument in node.arguments if argument.keyword}
                    if called_name(node) in ("backward", "manual_backward"):
                        values = [node.function.value] if isinstance(node.function, ir.Attribute) else []
                        values += [argument.value for argument in node.arguments]
                        losses |= {part.id for value in values for part in walk(value) if isinstance(part, ir.Name)}
        return cls(functions, keywords, losses)

    def has_jump(self, block: tuple[ir.Statement, ...]) -> bool:
        """Whether a block may continue or break the loop around it, or return."""
        known = self._jumps.get(id(block))
        if known is None:
            jumps = ir.Continue | ir.Break | ir.Return
            known = any(isinstance(node, jumps) for statement in block for node in nodes_of(statement))
            self._jumps[id(block)] = known
            self._kept.append(block)
        return known

    def extend(self, body: tuple[ir.Statement, ...], functions: Iterable[ir.Function] | None = None) -> None:
        """Add the functions of another module that is followed (`functions`, if they are known); a module that was
        added before adds nothing."""
        if id(body) in self._added:
            return
        self._added.add(id(body))
        self._kept.append(body)
        for node in walk(body) if functions is None else functions:
            if isinstance(node, ir.Function):
                self.functions.setdefault(node.name, []).append(node)
        self._words.clear()

    def words(self, block: tuple[ir.Statement, ...]) -> frozenset[str]:
        """The event words that running a block can reach, through functions of the file too."""
        return self._reach(block, set())

    def words_within(self, node: ir.Statement | ir.Expression) -> frozenset[str]:
        """The event words that running one statement, or evaluating one expression, can reach."""
        return self.words(self._block_of(node))

    def _block_of(self, node: ir.Statement | ir.Expression) -> tuple[ir.Statement, ...]:
        """The block that holds one node only; the same block each time, since answers are remembered by identity."""
        block = self._alone.get(id(node))
        if block is None:
            statement = ir.Evaluate(node.node, node) if isinstance(node, ir.Expression) else node
            block = self._alone[id(node)] = (statement,)
            self._kept.append(node)
        return block

    def _reach(self, block: tuple[ir.Statement, ...], seen: set[str]) -> frozenset[str]:
        key = id(block)
        known = self._words.get(key)
        if known is not None:
            return known
        found: set[str] = set()
        complete = True
        for statement in block:
            for node in nodes_of(statement):
                if isinstance(node, ir.Call):
                    name = called_name(node)
                    if name in EVENT_WORDS:
                        found.add(name)
                    elif name == "update" and "scaler" in receiver_text(node):
                        found.add("update")
                    elif (name := followed_name(node)) in self.functions:
                        if name in seen:
                            complete = False
                            continue
                        for function in self.functions[name]:
                            found |= self._reach(function.body, seen | {name})
                elif isinstance(node, (ir.Assign, ir.Augment, ir.Delete)):
                    found |= _gradient_writes(node)
        result = frozenset(found)
        if complete or not seen:
            self._words[key] = result
            self._kept.append(block)
        return result

    def called(self, block: tuple[ir.Statement, ...]) -> frozenset[str]:
        """The last names of all calls in a block."""
        known = self._called.get(id(block))
        if known is None:
            calls = (node for statement in block for node in nodes_of(statement) if isinstance(node, ir.Call))
            known = frozenset(called_name(call) for call in calls)
            self._called[id(block)] = known
            self._kept.append(block)
        return known

    def assigned(self, block: tuple[ir.Statement, ...]) -> frozenset[str]:
        """The plain names that a block binds."""
        known = self._names.get(id(block))
        if known is None:
            known = frozenset(name for statement in block for name in bound_names(statement))
            self._names[id(block)] = known
            self._kept.append(block)
        return known

    def tested(self, statement: ir.Statement) -> frozenset[str]:
        """The plain names and attribute names that the tests in a statement look at: its control names."""
        known = self._tests.get(id(statement))
        if known is None:
            tests = [test for node in nodes_of(statement) if (test := getattr(node, "test", None)) is not None]
            parts = [part for test in tests for part in walk(test)]
            names = {part.id for part in parts if isinstance(part, ir.Name)}
            known = frozenset(names | {part.name for part in parts if isinstance(part, ir.Attribute)})
            self._tests[id(statement)] = known
            self._kept.append(statement)
        return known


def nodes_of(statement: ir.Statement) -> Iterator[object]:
    """All nodes of a statement, without the bodies of functions and classes that it only defines."""
    if isinstance(statement, (ir.Function, ir.Class)):
        return
    yield from walk(statement, into_scopes=False)


def called_name(call: ir.Call) -> str:
    """The last name of what is called: `step` for `self.optimizer.step()`."""
    if isinstance(call.function, ir.Attribute):
        return call.function.name
    return call.function.id if isinstance(call.function, ir.Name) else ""


_COMMON = frozenset({"train", "eval", "forward", "to", "update", "save", "load", "log", "reset", "close", "get", "run"})
"""Method names that other objects have too: `model.train()` is not the file's own `train`."""


def followed_name(call: ir.Call) -> str:
    """The name under which a call may reach a function of the file, or "": only `self.train()` can be its `train`."""
    name = called_name(call)
    if isinstance(call.function, ir.Attribute) and name in _COMMON:
        receiver = receiver_text(call)
        own = receiver in ("self", "cls") or not any(w in receiver for w in ("model", "net", "module", "self"))
        return name if own else ""
    return name


def receiver_text(call: ir.Call) -> str:
    """The dotted receiver of a method call, lower case, as far as it is dotted."""
    parts: list[str] = []
    node: ir.Expression | None = call.function.value if isinstance(call.function, ir.Attribute) else None
    while isinstance(node, ir.Attribute):
        parts.append(node.name)
        node = node.value
    if isinstance(node, ir.Name):
        parts.append(node.id)
    return ".".join(reversed(parts)).lower()


def _gradient_writes(node: ir.Assign | ir.Augment | ir.Delete) -> set[str]:
    targets = (node.target,) if isinstance(node, ir.Augment) else node.targets
    return {t.name for t in targets if isinstance(t, ir.Attribute) and t.name in GRADIENT_ATTRIBUTES}


def bound_names(statement: ir.Statement) -> Iterator[str]:
    """The plain names (and `self.x` as "x") that a statement binds, in nested blocks too."""
    for node in nodes_of(statement):
        targets: tuple[ir.Expression, ...] = ()
        if isinstance(node, ir.Assign):
            targets = node.targets
        elif isinstance(node, (ir.Augment, ir.For, ir.Walrus)):
            targets = (node.target,)
        for target in targets:
            for part in walk(target):
                if isinstance(part, ir.Name):
                    yield part.id
                elif isinstance(part, ir.Attribute):
                    yield part.name


def ends_in(block: tuple[ir.Statement, ...], kinds: tuple[type[object], ...]) -> bool:
    """Whether a block's last statement is of one of the kinds."""
    return bool(block) and isinstance(block[-1], kinds)


def leaves_program(block: tuple[ir.Statement, ...]) -> bool:
    """Whether a block only ends the run: it raises, or calls exit."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ir.Raise):
        return True
    return isinstance(last, ir.Evaluate) and isinstance(last.value, ir.Call) and called_name(last.value) in _EXITS
