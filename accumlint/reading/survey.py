"""A survey of a module: functions, classes, loops and calls, as syntax shows them and without any meaning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from accumlint.reading import ir
from accumlint.reading.program import Module
from accumlint.reading.walk import Node, children, dotted, surroundings, walk


@dataclass(frozen=True, slots=True)
class CallSite:
    """One call. `dotted` is its callee as `a.b.c` or None; `attribute` its last name (`step`), "" if it has none.

    `loop_depth` counts the `for` and `while` statements of the same function that repeat it.
    """

    node: ir.NodeId
    call: ir.Call
    dotted: str | None
    attribute: str
    loop_depth: int


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """A function. `class_name` is set for methods, `enclosing` for functions inside a function (qualified names).

    `calls` are those of its own body, lambdas and nested class bodies included, nested functions not.
    """

    name: str
    function: ir.Function
    class_name: str | None
    enclosing: str | None
    calls: tuple[CallSite, ...]

    @property
    def attributes(self) -> frozenset[str]:
        """The last names of all calls: `backward`, `step`, ..."""
        return frozenset(site.attribute for site in self.calls if site.attribute)

    @property
    def names(self) -> frozenset[str]:
        """What is called as a plain name: `helper` for `helper(x)`."""
        return frozenset(site.dotted for site in self.calls if site.dotted and "." not in site.dotted)

    @property
    def own_methods(self) -> frozenset[str]:
        """What is called on `self` directly: `step` for `self.step()`, not `self.model.step()`."""
        found = (site.dotted.split(".") for site in self.calls if site.dotted)
        return frozenset(parts[1] for parts in found if len(parts) == 2 and parts[0] == "self")


@dataclass(frozen=True, slots=True)
class ClassInfo:
    """A class by its qualified name; `methods` by their plain names, the last definition of a name."""

    name: str
    definition: ir.Class
    methods: dict[str, FunctionInfo]


@dataclass(frozen=True, slots=True)
class LoopInfo:
    """A `for` or `while` statement; `calls` are those that it repeats, inner loops included, nested functions not."""

    node: ir.NodeId
    statement: ir.For | ir.While
    function: str
    depth: int
    calls: tuple[ir.NodeId, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything in the order of the source, outer before inner. The module's own code has the function name "".

    Qualified names are dotted (`Trainer.step`, `main.closure`). A name that is defined again belongs to its last
    definition; the earlier one is kept under `name@id`.
    """

    functions: dict[str, FunctionInfo]
    classes: dict[str, ClassInfo]
    loops: tuple[LoopInfo, ...]
    calls: tuple[CallSite, ...]
    module_calls: tuple[CallSite, ...]

    def calls_named(self, attribute: str) -> tuple[CallSite, ...]:
        """All calls whose last name is `attribute`: `backward` finds `loss.backward()` and `backward(loss)`."""
        return tuple(site for site in self.calls if site.attribute == attribute)


def survey(module: Module) -> Survey:
    """Survey a module. Depth is bounded by `table.MAX_DEPTH`, so the recursion over statements is too."""
    surveyor = _Surveyor()
    surveyor.visit_all(module.body)
    functions = _functions(surveyor.frames)
    return Survey(
        functions=functions,
        classes=_classes(surveyor.classes, functions),
        loops=tuple(
            LoopInfo(loop.statement.node, loop.statement, loop.frame.name, loop.depth, tuple(loop.calls))
            for loop in surveyor.loops
        ),
        calls=tuple(sorted(surveyor.calls, key=lambda site: site.node)),
        module_calls=tuple(surveyor.top.calls),
    )


@dataclass(slots=True)
class _Frame:
    """A function being surveyed, or the module itself (`function` is None); `name` is final only at the end."""

    name: str
    function: ir.Function | None = None
    class_name: str | None = None
    parent: _Frame | None = None
    calls: list[CallSite] = field(default_factory=list)
    open_loops: list[_Loop] = field(default_factory=list)


@dataclass(slots=True)
class _Loop:
    statement: ir.For | ir.While
    frame: _Frame
    depth: int
    calls: list[ir.NodeId] = field(default_factory=list)


class _Surveyor:
    """Visits statements; `class_name` is the qualified name of the class whose body is being visited."""

    def __init__(self) -> None:
        self.top = _Frame("")
        self.frame = self.top
        self.class_name: str | None = None
        self.frames: list[_Frame] = []
        self.classes: list[tuple[str, ir.Class]] = []
        self.loops: list[_Loop] = []
        self.calls: list[CallSite] = []

    def visit_all(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._visit(node)

    def _visit(self, node: Node) -> None:
        match node:
            case ir.Function():
                self._visit_function(node)
            case ir.Class():
                self._visit_class(node)
            case ir.For():
                self.visit_all((node.target, node.iterable))
                self._visit_loop(node, node.body)
            case ir.While():
                self._visit_loop(node, (node.test, *node.body))
            case ir.If() | ir.With() | ir.Try() | ir.Match():
                self.visit_all(children(node))
            case _:
                self._collect(node)

    def _collect(self, node: Node) -> None:
        frame = self.frame
        for call in walk(node):
            if isinstance(call, ir.Call):
                site = _call_site(call, len(frame.open_loops))
                self.calls.append(site)
                frame.calls.append(site)
                for loop in frame.open_loops:
                    loop.calls.append(site.node)

    def _visit_loop(self, node: ir.For | ir.While, repeated: Iterable[Node]) -> None:
        frame = self.frame
        loop = _Loop(node, frame, len(frame.open_loops))
        self.loops.append(loop)
        frame.open_loops.append(loop)
        self.visit_all(repeated)
        frame.open_loops.pop()
        self.visit_all(node.orelse)

    def _visit_function(self, node: ir.Function) -> None:
        self.visit_all(surroundings(node))
        outer = self.frame, self.class_name
        self.frame = _Frame(self._qualified(node.name), node, self.class_name, self.frame)
        self.class_name = None
        self.frames.append(self.frame)
        self.visit_all(node.body)
        self.frame, self.class_name = outer

    def _visit_class(self, node: ir.Class) -> None:
        self.visit_all(surroundings(node))
        outer = self.class_name
        self.class_name = self._qualified(node.name)
        self.classes.append((self.class_name, node))
        self.visit_all(node.body)
        self.class_name = outer

    def _qualified(self, name: str) -> str:
        prefix = self.class_name or self.frame.name
        return f"{prefix}.{name}" if prefix else name


def _call_site(call: ir.Call, loop_depth: int) -> CallSite:
    function = call.function
    attribute = ""
    if isinstance(function, ir.Attribute):
        attribute = function.name
    elif isinstance(function, ir.Name):
        attribute = function.id
    return CallSite(call.node, call, dotted(function), attribute, loop_depth)


def _functions(frames: list[_Frame]) -> dict[str, FunctionInfo]:
    """Settle the names from the last definition back, then build in the order of the source."""
    taken: set[str] = set()
    for frame in reversed(frames):
        assert frame.function is not None
        if frame.name in taken or _is_accessor(frame.function):
            frame.name = f"{frame.name}@{frame.function.node}"
        taken.add(frame.name)
    functions: dict[str, FunctionInfo] = {}
    for frame in frames:
        assert frame.function is not None
        enclosing = frame.parent.name if frame.parent is not None else ""
        functions[frame.name] = FunctionInfo(
            frame.name, frame.function, frame.class_name, enclosing or None, tuple(frame.calls)
        )
    return functions


def _is_accessor(function: ir.Function) -> bool:
    """Is this the setter or deleter of a property, which shares the name of its getter?"""
    return any(isinstance(each, ir.Attribute) and each.name in ("setter", "deleter") for each in function.decorators)


def _classes(found: list[tuple[str, ir.Class]], functions: dict[str, FunctionInfo]) -> dict[str, ClassInfo]:
    """A class that is defined again keeps its last definition; so do methods."""
    methods: dict[str, dict[str, FunctionInfo]] = {name: {} for name, _ in found}
    for name, info in functions.items():
        if info.class_name is not None and "@" not in name:
            methods[info.class_name][info.function.name] = info
    return {name: ClassInfo(name, definition, methods[name]) for name, definition in found}
