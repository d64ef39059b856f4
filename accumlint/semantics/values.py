"""The values of the interpreter: numbers, losses as linear forms, objects with identity, and everything else opaque.

Python's own None, bool, int, float, str and bytes stand for themselves. Objects, lists and dicts are mutable and
compared by identity (two names of one object are one object); all other values are frozen.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from accumlint.apis.language import Count, Role, Row
from accumlint.reading import ir
from accumlint.reading.contracts import LossContract
from accumlint.reading.record import built, record, thing
from accumlint.semantics.numbers import Num

if TYPE_CHECKING:
    from accumlint.semantics.frames import Frame


class Atom(NamedTuple):
    """One arrival of data: a batch of a loader, a slice of it, a random draw. Later arrivals have larger serials.

    `rank` orders kinds: a slice or batch (1) names the microbatch before a mere draw (0) does. No two share a serial.
    """

    rank: int
    serial: int
    kind: str


Lineage: TypeAlias = frozenset[Atom]
NO_DATA: Lineage = frozenset()
LONGEST_PATH = 160
DEEPEST_PARTS = 5


class Fact(NamedTuple):
    """Something read off the code that later speaks for or against equal counts ("ignore_index", "mask", ...)."""

    name: str
    node: ir.NodeId | None = None
    text: str = ""


Facts: TypeAlias = frozenset[Fact]
NO_FACTS: Facts = frozenset()


@record
class Hidden:
    """The result of a call that has a loss contract, or (`is_loss`) the loss in it; `call` is the call's node."""

    contract: LossContract
    call: ir.NodeId
    is_loss: bool = False

    @property
    def may_be_loss(self) -> bool:
        """Whether the value may be backpropagated as the loss that the contract speaks of."""
        return self.is_loss or (self.contract.output is None and not self.contract.shipped)


@thing
class Site:
    """One birth of a loss: which call, on which data, and what it divided by.

    `reduction` is "mean", "sum", "none" (one value a target) or "unknown". `node` is the expression that made it;
    `call` the canonical name of the library loss, if it was one.
    """

    node: ir.NodeId
    reduction: str
    lineage: Lineage
    modules: frozenset[str] = frozenset()
    count: Count | None = None
    call: str = ""
    facts: Facts = NO_FACTS
    separable: bool = True
    arguments: tuple[tuple[str, str], ...] = ()  # parameter -> what was passed, as an access path
    text: str = ""
    hidden: Hidden | None = None  # the contract that declares its reduction and count


@record
class Division:
    """The loss was divided (or, with a divisor below 1, multiplied) by a number that does not depend on the data."""

    node: ir.NodeId
    divisor: Num
    weighs: bool = False  # a loss's own weight (`0.5 * loss`), or the mean of as many losses as it divides by


@record
class Form:
    """A loss: a linear form over the values of loss sites. Adding, and multiplying by numbers, are all it can do."""

    terms: tuple[tuple[Site, Num], ...]
    divisions: tuple[Division, ...] = ()
    scaler: Object | None = None
    detached: bool = False
    text: str = ""

    @property
    def lineage(self) -> Lineage:
        return frozenset().union(*(site.lineage for site, _ in self.terms))

    @property
    def modules(self) -> frozenset[str]:
        return frozenset().union(*(site.modules for site, _ in self.terms))

    @property
    def facts(self) -> Facts:
        return frozenset().union(*(site.facts for site, _ in self.terms))

    @property
    def is_elementwise(self) -> bool:
        return any(site.reduction == "none" for site, _ in self.terms)

    @property
    def is_unknown(self) -> bool:
        return all(site.reduction == "unknown" for site, _ in self.terms)


@built
class Opaque:
    """Anything that is not understood: an access path, the data it derives from, whether it carries gradient.

    `path` names it ("args.accum", "model(x).loss"); a configuration number is known by it. `parts` keeps arithmetic
    on unknown numbers, so that it can be worked out once they have values. `wants` names the unknowns that would
    decide it, if it is a condition, together with why.
    """

    path: str
    lineage: Lineage = NO_DATA
    gradient: bool = False
    modules: frozenset[str] = frozenset()
    facts: Facts = NO_FACTS
    node: ir.NodeId = -1
    parts: tuple[str, tuple[Value, ...]] | None = None
    wants: tuple[tuple[Opaque, str], ...] = ()
    kind: str = ""  # "mask", "parameter", "gradient", "scaled gradient", "condition", "shape", "last", "parts"
    role: Role | None = None
    source: Object | None = None  # the parameters, optimizer or scaler that it belongs to
    depth: int = 0  # of nested `parts`
    points: tuple[bool | None, ...] | None = None  # a comparison of counts: its answer at each sample point
    hidden: Hidden | None = None  # it is, or holds, a loss that a contract declares

    def __init__(
        self,
        path: str,
        lineage: Lineage = NO_DATA,
        gradient: bool = False,
        modules: frozenset[str] = frozenset(),
        facts: Facts = NO_FACTS,
        node: ir.NodeId = -1,
        parts: tuple[str, tuple[Value, ...]] | None = None,
        wants: tuple[tuple[Opaque, str], ...] = (),
        kind: str = "",
        role: Role | None = None,
        source: Object | None = None,
        depth: int = 0,
        points: tuple[bool | None, ...] | None = None,
        hidden: Hidden | None = None,
    ) -> None:
        if len(path) > LONGEST_PATH:
            mark = zlib.crc32(path.encode("utf-8", "replace"))
            path = f"{path[: LONGEST_PATH - 12]}...{mark:08x}"
        if parts is not None:
            depth = 1 + max([part.depth for part in parts[1] if isinstance(part, Opaque)], default=0)
            if depth > DEEPEST_PARTS:
                parts = None
        if len(wants) > 1:
            wants = tuple({unknown.path: (unknown, why) for unknown, why in wants}.values())[:4]
        self.path = path
        self.lineage = lineage
        self.gradient = gradient
        self.modules = modules
        self.facts = facts
        self.node = node
        self.parts = parts
        self.wants = wants
        self.kind = kind
        self.role = role
        self.source = source
        self.depth = depth
        self.points = points
        self.hidden = hidden


@dataclass(eq=False, slots=True)
class Object:
    """A thing with identity: an optimizer, a loader, an instance of a class of the file, a module."""

    path: str
    role: Role | None = None
    canonical: str = ""  # its library class
    attributes: dict[str, Value] = field(default_factory=dict)
    owner: Object | None = None
    of: tuple[Value, ...] = ()
    instance: ClassValue | None = None
    lineage: Lineage = NO_DATA
    node: ir.NodeId = -1
    modules: frozenset[str] = frozenset()  # the modules that it stands for or holds the parameters of


@dataclass(eq=False, slots=True)
class Items:
    """A list, tuple or set whose items are known. `kind` is "list", "tuple", "set" or "deque"."""

    kind: str
    items: list[Value]
    key: str = ""  # where its length came from, if that was unknown


@dataclass(eq=False, slots=True)
class Mapping:
    """A dict; `rest` is what an unknown key would yield (None: nothing, it is known in full)."""

    items: dict[object, Value]
    rest: Value | None = None


@record
class SliceValue:
    lower: Value
    upper: Value
    step: Value


@record
class RangeValue:
    """A range; `key` is set if its length is not known."""

    start: Value
    stop: Value
    step: Value
    node: ir.NodeId


@dataclass(eq=False, slots=True)
class Stream:
    """Something that is being iterated: an iterator with a position. `finite` is False for endless ones."""

    iterator: Iterator[Value]
    finite: bool
    key: str
    length: int | None = None
    counted: bool = False  # its elements are pairs of a place and an element


@record
class Canonical:
    """A thing of a library by its dotted name: a module, a function, a class."""

    name: str


@thing
class Deferred:
    """An import of the project that is looked up when the name is first used: most of a file's never are.

    It stands in frames only; evaluating a name puts the value in its place.
    """

    target: str
    frame: Frame


@thing
class FunctionValue:
    """A function of the file. `bound` is the receiver of a method; `partial` holds arguments given in advance."""

    function: ir.Function | ir.Lambda
    closure: Frame
    owner: ClassValue | None = None
    bound: Value = None
    is_bound: bool = False
    partial: tuple[tuple[str | None, Value], ...] = ()
    no_grad: bool = False

    @property
    def name(self) -> str:
        return self.function.name if isinstance(self.function, ir.Function) else "<lambda>"


@dataclass(eq=False, slots=True)
class ClassValue:
    """A class of the file; `bases` are classes of the file or canonical names."""

    definition: ir.Class
    closure: Frame
    bases: tuple[Value, ...]
    members: dict[str, Value] = field(default_factory=dict)


@thing
class Method:
    """A method of something that is not a class of the file: `receiver.name`, not called yet."""

    receiver: Value
    name: str
    node: ir.NodeId = -1


@thing
class Context:
    """A call that is a context manager: it acts when a `with` enters it, and again when that is left."""

    call: LibraryCall
    entered: list[Value] = field(default_factory=list)


@thing
class Super:
    """`super()`: the receiver seen as an instance of the bases of `owner`."""

    receiver: Value
    owner: ClassValue


@thing
class LibraryCall:
    """A call that the tables describe: its row, its receiver, its arguments by parameter.

    `written` are the argument expressions by parameter, for calls that change an argument in place.
    """

    row: Row
    receiver: Value
    bound: dict[str, object]
    node: ir.NodeId
    written: dict[str, ir.Expression] = field(default_factory=dict)
    frame: Frame | None = None


Value: TypeAlias = (
    "bool | int | float | str | bytes | complex | Num | Form | Opaque | Object | Items | Mapping | SliceValue"
    " | RangeValue | Stream | Canonical | Deferred | FunctionValue | ClassValue | Method | Context | Super | None"
)


def lineage_of(value: Value) -> Lineage:
    """The data that a value derives from."""
    if isinstance(value, Opaque):
        return value.lineage
    found = _LINEAGES.get(type(value))
    return NO_DATA if found is None else found(value)


_LINEAGES: dict[type, Callable[[Any], Lineage]] = {
    Object: lambda value: value.lineage,
    Form: lambda value: value.lineage,
    Items: lambda value: NO_DATA.union(*map(lineage_of, value.items)),
    Mapping: lambda value: lineage_of(value.rest).union(*map(lineage_of, value.items.values())),
    SliceValue: lambda value: lineage_of(value.lower) | lineage_of(value.upper) | lineage_of(value.step),
    RangeValue: lambda value: lineage_of(value.start) | lineage_of(value.stop),
}


def modules_of(value: Value) -> frozenset[str]:
    """The modules that a value was computed by."""
    if isinstance(value, (Opaque, Form, Object)):
        return value.modules
    if isinstance(value, Items):
        return _NO_MODULES.union(*map(modules_of, value.items))
    if isinstance(value, Mapping):
        return _NO_MODULES.union(*map(modules_of, value.items.values()))
    return _NO_MODULES


def facts_of(value: Value) -> Facts:
    if isinstance(value, (Opaque, Form)):
        return value.facts
    if isinstance(value, Items):
        return NO_FACTS.union(*map(facts_of, value.items))
    if isinstance(value, Mapping):
        return NO_FACTS.union(*map(facts_of, value.items.values()))
    return NO_FACTS


def facts_of_all(values: Iterable[Value]) -> Facts:
    """The facts of several values together."""
    facts = NO_FACTS
    for value in values:
        if isinstance(value, Opaque):
            if value.facts:
                facts = facts | value.facts if facts else value.facts
        elif not isinstance(value, _PLAIN):
            facts |= facts_of(value)
    return facts


def carries_gradient(value: Value) -> bool:
    if isinstance(value, Opaque):
        return value.gradient
    if isinstance(value, Form):
        return not value.detached
    if isinstance(value, Items):
        return any(carries_gradient(item) for item in value.items)
    if isinstance(value, Mapping):
        return carries_gradient(value.rest) or any(carries_gradient(item) for item in value.items.values())
    return False


def derived(sources: Iterable[Value]) -> tuple[Lineage, frozenset[str], bool]:
    """The data that a value made of `sources` derives from, the modules that had a part in it, and whether a gradient
    flows through it. An unknown without data may itself be a module."""
    lineage, modules, gradient = NO_DATA, _NO_MODULES, False
    for source in sources:
        if isinstance(source, Opaque):
            if source.lineage:
                lineage = lineage | source.lineage if lineage else source.lineage
                modules = modules | source.modules if modules else source.modules
            else:
                modules = modules | source.modules | {source.path}
            gradient = gradient or source.gradient
        elif not isinstance(source, _PLAIN):
            lineage |= lineage_of(source)
            modules |= modules_of(source)
            gradient = gradient or carries_gradient(source)
    return lineage, modules, gradient


_NO_MODULES: frozenset[str] = frozenset()
_PLAIN = (str, int, float, bytes, type(None))


def path_of(value: Value) -> str:
    """How a value is named in access paths and condition texts."""
    if isinstance(value, Opaque):
        return value.path
    found = _PATHS.get(type(value))
    return repr(value) if found is None else found(value)


_PATHS: dict[type, Callable[[Any], str]] = {
    Object: lambda value: value.path,
    Num: lambda value: value.text,
    Form: lambda value: value.text,
    Canonical: lambda value: value.name,
    FunctionValue: lambda value: value.name,
    ClassValue: lambda value: value.definition.name,
    Method: lambda value: f"{path_of(value.receiver)}.{value.name}",
    Items: lambda value: "[...]" if value.items else "[]",
    Mapping: lambda value: "{...}",
    SliceValue: lambda value: ":".join("" if b is None else path_of(b) for b in (value.lower, value.upper)),
    RangeValue: lambda value: f"range({path_of(value.start)}, {path_of(value.stop)})",
    Stream: lambda value: f"iter({value.key})",
}


def hidden_part(value: Value, part: object) -> Hidden | None:
    """The mark of an attribute, a key or an index of a result, if the contract says that the loss stands there."""
    if not isinstance(value, Opaque) or value.hidden is None or value.hidden.is_loss:
        return None
    if isinstance(part, SliceValue) and part.lower is None and part.step is None:
        return value.hidden
    if not isinstance(part, (str, int)) or not value.hidden.contract.is_loss(part):
        return None
    return replace(value.hidden, is_loss=True)
