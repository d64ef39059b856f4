"""The lint of the tables, which runs in the tests, and the text that `accumlint apis` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import combinations

from accumlint.apis.language import (
    Arg,
    ArgAttr,
    Attr,
    ClassRow,
    Const,
    Effect,
    Is,
    Loss,
    OwnerAttr,
    Part,
    Ranks,
    Row,
    Window,
)
from accumlint.apis.registry import Registry, Table, TableError
from accumlint.apis.signature import SignatureError, parse_signature

RELEASE = re.compile(r"^[\w-]+ \d+(\.\d+)+(,|:)")
VERSIONS = re.compile(r"((>=|<)\d+(\.\d+)*,?)*")
CLIPS = {"norm", "value"}
REDUCTIONS = {"mean", "sum"}
CLOCKS = {"scheduler", "scaler"}
ITERATIONS = {
    "enumerate",
    "zip",
    "islice",
    "iter",
    "chain",
    "pass",
    "cycle",
    "reversed",
    "batched",
    "repeat",
    "range",
    "next",
    "count",
    "pieces",
    "split",
}
WINDOWS = {"size", "ends", "last"}
WORDS = {"Clip": CLIPS, "Reduce": REDUCTIONS, "Iterate": ITERATIONS}


def check_tables(registry: Registry) -> None:
    """Check every row and class of a registry.

    Raises:
        TableError: with all faults, one a line.
    """
    faults = [fault for table in registry.tables for fault in table_faults(table, registry)]
    if faults:
        raise TableError("\n".join(faults))


def table_faults(table: Table, registry: Registry) -> Iterator[str]:
    """What is wrong with a table, in words."""
    for row in table.rows:
        yield from (f"{table.name}: {row.call}: {fault}" for fault in row_faults(row))
    for known in table.classes:
        yield from (f"{table.name}: {known.name}: {fault}" for fault in _class_faults(known, registry))


def row_faults(row: Row) -> Iterator[str]:
    """What is wrong with one row, in words."""
    if not RELEASE.match(row.source):
        yield f"its source names no release: {row.source!r}"
    if not VERSIONS.fullmatch(row.versions):
        yield f"its versions are no specifier: {row.versions!r}"
    try:
        names = parse_signature(row.parameters).names
    except SignatureError as error:
        yield str(error)
        return
    for effect in (*row.does, *row.undo):
        for operand in _operands(effect):
            if isinstance(operand, (Arg, ArgAttr)) and operand.name not in names:
                yield f"{operand} is not among its parameters ({row.parameters})"
        yield from _word_faults(effect)
    for first, second in combinations([effect for effect in row.does if isinstance(effect, Loss)], 2):
        if not _exclude(first.when, second.when):
            yield f"two losses can hold at once: {_words(first.when)} and {_words(second.when)}"


def _word_faults(effect: Effect) -> Iterator[str]:
    name = type(effect).__name__
    kind = getattr(effect, "kind", None)
    if name in WORDS and kind not in WORDS[name]:
        yield f"{name} knows no kind {kind!r}"
    clock = getattr(effect, "clock", None)
    if clock is not None and clock not in CLOCKS:
        yield f"no clock is called {clock!r}"
    classes, operands = getattr(effect, "classes", ()), getattr(effect, "operands", ())
    if classes and len(classes) != len(operands):
        yield f"{name} names {len(classes)} classes for {len(operands)} operands"


def _class_faults(known: ClassRow, registry: Registry) -> Iterator[str]:
    for base in known.bases:
        if not registry.is_class(base):
            yield f"its base {base} is no class of any table"
    for _, operand in known.attributes:
        if isinstance(operand, Part) and not registry.is_class(operand.canonical):
            yield f"its part {operand.canonical} is no class of any table"
        if isinstance(operand, Window) and operand.what not in WINDOWS:
            yield f"nothing of a window is called {operand.what!r}"


def _operands(part: object) -> Iterator[object]:
    """All operands inside an effect, conditions included."""
    if isinstance(part, tuple):
        for item in part:
            yield from _operands(item)
    elif is_dataclass(part) and not isinstance(part, type):
        yield part
        for item in fields(part):
            yield from _operands(getattr(part, item.name))


def _exclude(first: tuple[Is, ...], second: tuple[Is, ...]) -> bool:
    """Whether no assignment of values satisfies both conjunctions."""
    return any(_contradict(a, b) for a in first for b in second)


def _contradict(a: Is, b: Is) -> bool:
    if a.operand != b.operand:
        return False
    same = a.value == b.value and type(a.value) is type(b.value)
    if a.negated == b.negated:
        return not same and not a.negated
    return same


# ------------------------------------------------------------------------------------------------ printed form


def render_row(row: Row) -> str:
    """A row as a few lines of text: its call, effects, assumptions and source."""
    lines = [f"{row.call}({row.parameters})"]
    lines += [f"    {_effect(effect)}" for effect in row.does] or ["    leaves losses, gradients and clocks alone"]
    lines += [f"    on leaving: {_effect(effect)}" for effect in row.undo]
    lines += [f"    assumes: {assumption}" for assumption in row.assumes]
    lines += [f"    also: {', '.join(row.aliases)}"] if row.aliases else []
    lines += [f"    versions: {row.versions}"] if row.versions else []
    lines.append(f"    source: {row.source}")
    return "\n".join(lines)


def render_table(table: Table) -> str:
    """All rows of a table, in its order."""
    return f"== {table.name}\n\n" + "\n\n".join(render_row(row) for row in table.rows) + "\n"


def _effect(effect: Effect) -> str:
    shown = []
    for item in fields(effect):
        value = getattr(effect, item.name)
        if item.name != "when" and value not in ((), None, "", False):
            shown.append(f"{item.name}={_text(value)}")
    conditions = f" when {_words(effect.when)}" if effect.when else ""
    return f"{type(effect).__name__}({', '.join(shown)}){conditions}"


def _words(conditions: tuple[Is, ...]) -> str:
    said = [
        f"{_text(c.operand)} is {'not ' if c.negated else ''}{c.value!r}{' or unknown' if c.unknown else ''}"
        for c in conditions
    ]
    return " and ".join(said) or "always"


def _text(value: object) -> str:
    match value:
        case Arg(name):
            return name
        case ArgAttr(name, attribute):
            return f"{name}.{attribute}"
        case Attr(name):
            return f"self.{name}"
        case OwnerAttr(name):
            return f"owner.{name}"
        case Const(constant):
            return repr(constant)
        case Ranks():
            return "the number of ranks"
        case Part(canonical):
            return f"a {canonical}"
        case Window(every, what):
            return f"{what} of the window of {_text(every)}"
        case Enum():
            return value.name
        case tuple():
            return "(" + ", ".join(_text(item) for item in value) + ")"
        case str() | int() | float():
            return repr(value)
        case _:
            return type(value).__name__.lower()
