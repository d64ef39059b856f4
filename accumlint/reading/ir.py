"""The small syntax tree that every upper layer sees.

`reading/` lowers a libcst module to these nodes; nothing above it ever touches libcst, except `repair/`, which asks
`Module.syntax` for the concrete node behind a `NodeId`. Each IR node carries the id of the concrete node it came from
in `node`; ids are indices into one table of a module, so they are stable, ordered by position in the source and cheap.
Nodes are frozen and hold no meaning: whether a call is a loss is decided two layers up.
"""

from __future__ import annotations

from typing import TypeAlias

from accumlint.reading.record import record

NodeId: TypeAlias = int
Literal: TypeAlias = int | float | complex | str | bytes | bool | type(...) | None  # type: ignore[valid-type]

# --------------------------------------------------------------------------------------------- expressions


@record
class Constant:
    """A literal; implicitly concatenated strings are one constant. `...` is `Ellipsis`."""

    node: NodeId
    value: Literal


@record
class Name:
    node: NodeId
    id: str


@record
class Attribute:
    node: NodeId
    value: Expression
    name: str


@record
class Argument:
    """One argument of a call: `star` is "", "*" or "**"; `keyword` is set for `name=value`."""

    value: Expression
    keyword: str | None = None
    star: str = ""


@record
class Call:
    node: NodeId
    function: Expression
    arguments: tuple[Argument, ...]


@record
class Binary:
    """`operator` is the Python spelling: + - * / // % ** @ & | ^ << >>."""

    node: NodeId
    operator: str
    left: Expression
    right: Expression


@record
class Unary:
    """`operator` is one of: - + ~ not."""

    node: NodeId
    operator: str
    operand: Expression


@record
class Boolean:
    """`and` / `or`, flattened: `a and b and c` has three values."""

    node: NodeId
    operator: str
    values: tuple[Expression, ...]


@record
class Compare:
    """A chain of comparisons; operators are == != < <= > >= is `is not` in `not in`."""

    node: NodeId
    left: Expression
    operators: tuple[str, ...]
    comparators: tuple[Expression, ...]


@record
class Subscript:
    """`value[index]`; several indices are one `Display` of kind "tuple"."""

    node: NodeId
    value: Expression
    index: Expression


@record
class Slice:
    node: NodeId
    lower: Expression | None
    upper: Expression | None
    step: Expression | None


@record
class Conditional:
    """`body if test else orelse`."""

    node: NodeId
    test: Expression
    body: Expression
    orelse: Expression


@record
class Display:
    """A tuple, list or set display; `kind` is "tuple", "list" or "set"."""

    node: NodeId
    kind: str
    elements: tuple[Expression, ...]


@record
class DictDisplay:
    """A dict display; a key of None is a `**mapping` item."""

    node: NodeId
    items: tuple[tuple[Expression | None, Expression], ...]


@record
class Clause:
    """One `for target in iterable if ...` of a comprehension."""

    target: Expression
    iterable: Expression
    conditions: tuple[Expression, ...]
    is_async: bool = False


@record
class Comprehension:
    """`kind` is "list", "set", "dict" or "generator"; `value` is set for dicts only (`element: value`)."""

    node: NodeId
    kind: str
    element: Expression
    value: Expression | None
    clauses: tuple[Clause, ...]


@record
class Lambda:
    node: NodeId
    parameters: tuple[Parameter, ...]
    body: Expression


@record
class Walrus:
    node: NodeId
    target: Name
    value: Expression


@record
class Formatted:
    """An f-string: only the expressions inside it, in order."""

    node: NodeId
    values: tuple[Expression, ...]


@record
class Starred:
    """`*value` in a display, an assignment target or a subscript."""

    node: NodeId
    value: Expression


@record
class Await:
    node: NodeId
    value: Expression


@record
class Yield:
    """`yield value` or, with `is_from`, `yield from value`."""

    node: NodeId
    value: Expression | None
    is_from: bool = False


@record
class Unread:
    """Syntax that no layer needs to understand; its sub-expressions are kept so that their effects are not lost."""

    node: NodeId
    values: tuple[Expression, ...] = ()


Expression: TypeAlias = (
    Constant
    | Name
    | Attribute
    | Call
    | Binary
    | Unary
    | Boolean
    | Compare
    | Subscript
    | Slice
    | Conditional
    | Display
    | DictDisplay
    | Comprehension
    | Lambda
    | Walrus
    | Formatted
    | Starred
    | Await
    | Yield
    | Unread
)

# ---------------------------------------------------------------------------------------------- statements


@record
class Parameter:
    """`kind` is "positional", "keyword" (keyword only), "*" or "**"; `annotation` is kept for roles (`Fabric`, ...)."""

    name: str
    default: Expression | None = None
    annotation: Expression | None = None
    kind: str = "positional"


@record
class Assign:
    """`a = b = value`, `a: T = value` (one target) and `type X = value`; targets left to right."""

    node: NodeId
    targets: tuple[Expression, ...]
    value: Expression
    annotation: Expression | None = None


@record
class Declare:
    """`a: T` without a value (a dataclass field, an instance attribute)."""

    node: NodeId
    target: Expression
    annotation: Expression


@record
class Augment:
    """`target operator= value`; `operator` without the `=`."""

    node: NodeId
    target: Expression
    operator: str
    value: Expression


@record
class Evaluate:
    """An expression statement."""

    node: NodeId
    value: Expression


@record
class If:
    """`elif` is an `If` alone in `orelse`. `node` is the concrete `If`, whose position is that of its `if` keyword."""

    node: NodeId
    test: Expression
    body: tuple[Statement, ...]
    orelse: tuple[Statement, ...]


@record
class For:
    node: NodeId
    target: Expression
    iterable: Expression
    body: tuple[Statement, ...]
    orelse: tuple[Statement, ...]
    is_async: bool = False


@record
class While:
    node: NodeId
    test: Expression
    body: tuple[Statement, ...]
    orelse: tuple[Statement, ...]


@record
class With:
    """`items` are (context expression, target or None), left to right."""

    node: NodeId
    items: tuple[tuple[Expression, Expression | None], ...]
    body: tuple[Statement, ...]
    is_async: bool = False


@record
class Handler:
    """`except kind as name: body`."""

    kind: Expression | None
    name: str | None
    body: tuple[Statement, ...]


@record
class Try:
    node: NodeId
    body: tuple[Statement, ...]
    handlers: tuple[Handler, ...]
    orelse: tuple[Statement, ...]
    final: tuple[Statement, ...]


@record
class Case:
    """One `case`: `names` are what its pattern binds, `value` is the literal it compares with, if it is one."""

    value: Expression | None
    names: tuple[str, ...]
    guard: Expression | None
    body: tuple[Statement, ...]
    is_wildcard: bool = False


@record
class Match:
    node: NodeId
    subject: Expression
    cases: tuple[Case, ...]


@record
class Return:
    node: NodeId
    value: Expression | None


@record
class Raise:
    node: NodeId
    value: Expression | None


@record
class Assert:
    node: NodeId
    test: Expression


@record
class Delete:
    node: NodeId
    targets: tuple[Expression, ...]


@record
class Break:
    node: NodeId


@record
class Continue:
    node: NodeId


@record
class Pass:
    node: NodeId


@record
class Import:
    """`import a.b as c` binds c -> a.b; `import a.b` binds a -> a; `from .m import x as y` binds y -> ".m.x".

    `bindings` are (local name, dotted target); a star import binds the name "*" to its module.
    """

    node: NodeId
    bindings: tuple[tuple[str, str], ...]


@record
class Scope:
    """`global` / `nonlocal` names."""

    node: NodeId
    kind: str
    names: tuple[str, ...]


@record
class Function:
    node: NodeId
    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    decorators: tuple[Expression, ...] = ()
    is_async: bool = False
    is_generator: bool = False


@record
class Class:
    node: NodeId
    name: str
    bases: tuple[Expression, ...]
    keywords: tuple[Argument, ...]
    body: tuple[Statement, ...]
    decorators: tuple[Expression, ...] = ()


Statement: TypeAlias = (
    Assign
    | Declare
    | Augment
    | Evaluate
    | If
    | For
    | While
    | With
    | Try
    | Match
    | Return
    | Raise
    | Assert
    | Delete
    | Break
    | Continue
    | Pass
    | Import
    | Scope
    | Function
    | Class
)
