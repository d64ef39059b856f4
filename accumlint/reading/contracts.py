"""Loss contracts: what a loss that is computed out of sight divides by, as a count of the call's arguments.

    contract = make_contract("my_project.TinyLM", "(labels[:, 1:] != -100).sum()")

A count is data, never code: it is parsed, held against a small grammar, and printed again with what the call passes in
the place of its names. Nothing is evaluated, no attribute but `shape` is read, and no name is looked up.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

REDUCTIONS = ("mean", "sum")
LARGEST = 300
DEEPEST = 30
METHODS = frozenset(
    {"sum", "size", "numel", "nelement", "long", "int", "float", "bool", "eq", "ne", "lt", "le", "gt", "ge"}
    | {"flatten", "view", "reshape", "contiguous", "logical_and", "logical_not", "count_nonzero"}
)
CALLED = (".forward", ".__call__")
_PATTERN = re.compile(r"[\w.*?\[\]!-]+")
_MASKS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "bool", "logical_and", "logical_not"})


class ContractError(ValueError):
    """A contract that cannot be used; the message is one line."""


class Counted(Enum):
    """What kind of thing a count counts; later members can differ where earlier ones cannot."""

    CONSTANT = "nothing that varies"
    ROWS = "rows"
    ELEMENTS = "elements"
    TARGETS = "valid targets"
    WEIGHTS = "a sum of weights"


@dataclass(frozen=True, slots=True)
class LossContract:
    """The declared loss of a callable: its reduction, and the count that its mean divides by.

    `pattern` is a dotted name, a class name or a name of the file, with shell wildcards. `count` is an expression over
    the arguments by parameter name, "" for a sum. `parameters` name what is passed by position. `output` says where
    in the result the loss stands: a key or an attribute, or an index; None: the usual places. `assumes` is what must
    hold beside it, `source` where it was declared.
    """

    pattern: str
    count: str = ""
    reduction: str = "mean"
    parameters: tuple[str, ...] = ()
    output: str | int | None = None
    counted: Counted = Counted.TARGETS
    assumes: tuple[str, ...] = ()
    source: str = ""
    shipped: bool = False

    def matches(self, name: str) -> bool:
        """Whether a callable of this dotted name is meant: by its whole name or by its last part."""
        plain = _without_call(name)
        return any(fnmatchcase(each, self.pattern) for each in (plain, plain.rpartition(".")[2]) if each)

    def is_loss(self, part: str | int) -> bool:
        """Whether an attribute, key or index of the result is the loss."""
        return part in ("loss", 0) if self.output is None else part == self.output

    @property
    def text(self) -> str:
        """The contract in words, as a certificate states it."""
        if self.reduction == "sum":
            return f"the loss of `{self.pattern}` is a sum ({self.source})"
        return f"the loss of `{self.pattern}` is a mean over `{self.count}` ({self.source})"


def make_contract(
    pattern: str,
    count: str = "",
    *,
    reduction: str = "mean",
    parameters: tuple[str, ...] = (),
    output: str | int | None = None,
    assumes: tuple[str, ...] = (),
    source: str = "declared in the configuration",
    shipped: bool = False,
) -> LossContract:
    """A checked contract. Raises ContractError for a pattern, count or option that cannot be meant."""
    name = _without_call(pattern)
    if not _PATTERN.fullmatch(name):
        raise ContractError("a callable is named by a dotted name, a class name or a pattern of one")
    if reduction not in REDUCTIONS:
        raise ContractError(f"reduction is one of {', '.join(REDUCTIONS)}, not {reduction!r}")
    if reduction == "sum":
        if count:
            raise ContractError("a sum divides by nothing: it has no count")
        counted = Counted.CONSTANT
    else:
        counted = classify(parse_count(count))
    for parameter in parameters:
        if not parameter.isidentifier():
            raise ContractError(f"{parameter!r} is no name of a parameter")
    return LossContract(name, count, reduction, parameters, output, counted, assumes, source, shipped)


def _without_call(name: str) -> str:
    for ending in CALLED:
        name = name.removesuffix(ending)
    return name


def parse_count(text: str) -> ast.expr:
    """The expression of a count, every node of it allowed. Raises ContractError."""
    if not text.strip():
        raise ContractError("the count is empty")
    if "\n" in text.strip() or "#" in text:
        raise ContractError("the count is one line, without a comment")
    if len(text) > LARGEST:
        raise ContractError(f"the count is longer than {LARGEST} characters")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ContractError(f"`{text}` is not a Python expression") from None
    _check(node, 0)
    return node


def names_of(node: ast.expr) -> tuple[str, ...]:
    """The parameters that a count reads, in the order of the text."""
    found = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id != "len"]
    return tuple(dict.fromkeys(found))


def written(count: str, arguments: Mapping[str, str]) -> str:
    """A count with the text of what is passed in the place of each name; raises KeyError for one that is missing."""
    text = count.strip().encode()
    names = [node for node in ast.walk(parse_count(count)) if isinstance(node, ast.Name) and node.id != "len"]
    for node in sorted(names, key=lambda node: node.col_offset, reverse=True):
        begin, end = node.col_offset, node.col_offset + len(node.id.encode())
        text = text[:begin] + _operand(arguments[node.id]).encode() + text[end:]
    return text.decode()


def _operand(text: str) -> str:
    """An expression as it may stand for a name: in parentheses, unless nothing binds tighter."""
    node = ast.parse(text, mode="eval").body
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) else f"({text})"


# --------------------------------------------------------------------------------------------------- the grammar


def _check(node: ast.AST, depth: int) -> None:
    if depth > DEEPEST:
        raise ContractError("the count is nested too deeply")
    if isinstance(node, ast.Name) and (node.id.startswith("__") or node.id == "len"):
        raise _refused(node)
    if isinstance(node, ast.Constant) and not _is_plain_constant(node.value):
        raise _refused(node)
    if isinstance(node, ast.Attribute) and node.attr != "shape":
        raise _refused(node)
    if isinstance(node, ast.Compare) and len(node.ops) != 1:
        raise _refused(node)
    if isinstance(node, ast.Call):
        _check_call(node, depth)
        return
    if not isinstance(node, _ALLOWED):
        raise _refused(node)
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _MARKS):
            _check(child, depth + 1)


_ALLOWED = (
    ast.Name, ast.Constant, ast.Attribute, ast.Compare, ast.BinOp, ast.UnaryOp, ast.Subscript, ast.Slice, ast.Tuple,
)  # fmt: skip
_MARKS = (
    ast.Load, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.BitAnd, ast.BitOr, ast.USub, ast.Invert,
)  # fmt: skip


def _check_call(node: ast.Call, depth: int) -> None:
    if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
        raise _refused(node)
    if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        _check(node.func.value, depth + 1)
    elif not (isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1):
        raise _refused(node)
    for argument in node.args:
        _check(argument, depth + 1)


def _is_plain_constant(value: object) -> bool:
    return value is Ellipsis or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _refused(node: ast.AST) -> ContractError:
    shown = ast.unparse(node)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return ContractError(
        f"`{shown}` cannot stand in a count: it holds names of parameters, whole numbers, comparisons, indices, "
        "+ - * // & | ~, len() and methods such as .sum(), .numel() and .size(0)"
    )


# ---------------------------------------------------------------------------------------------- what is counted


def classify(node: ast.expr) -> Counted:
    """What a count counts. Raises ContractError for an expression that is no number."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        if node.value < 1:
            raise ContractError("a count is at least 1")
        return Counted.CONSTANT
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)):
        order = list(Counted)
        return max(classify(node.left), classify(node.right), key=order.index)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return Counted.ROWS
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        arguments = len(node.args)
        if node.func.attr in ("numel", "nelement") and not arguments:
            return Counted.ELEMENTS
        if node.func.attr == "size" and arguments == 1:
            return Counted.ROWS
        if node.func.attr == "count_nonzero" and not arguments:
            return Counted.TARGETS
        if node.func.attr == "sum" and not arguments:
            return Counted.TARGETS if _is_mask(node.func.value) else Counted.WEIGHTS
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Attribute)
        and isinstance(node.slice, (ast.Constant, ast.UnaryOp))
    ):
        return Counted.ROWS
    raise ContractError(
        f"`{ast.unparse(node)}` is not a number: a count ends in .sum(), .numel(), .size(0) or is a len()"
    )


def _is_mask(node: ast.expr) -> bool:
    """Whether an expression is true or false at each place, so that its sum is a whole number."""
    if isinstance(node, ast.Compare):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.BitAnd, ast.BitOr)) or (_is_mask(node.left) and _is_mask(node.right))
    if isinstance(node, ast.Subscript):
        return _is_mask(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in _MASKS or _is_mask(node.func.value)
    return False


__all__ = [
    "ContractError",
    "Counted",
    "LossContract",
    "classify",
    "make_contract",
    "names_of",
    "parse_count",
    "written",
]
