"""Edits of the original text, computed from positions: what no edit touches stays as it is, byte for byte."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from accumlint.findings import Edit
from accumlint.reading import ir
from accumlint.reading.program import Module, Span
from accumlint.reading.walk import called_name, walk

Block = tuple[ir.Statement, ...]
COMPOUND = (ir.If, ir.For, ir.While, ir.With, ir.Try, ir.Match, ir.Function, ir.Class)
LOOPS = (ir.For, ir.While)


class Unplannable(Exception):
    """Why this repair cannot be written, in one line."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement stands: its block, its index there, and the statement that holds the block."""

    block: Block
    index: int
    parent: ir.Statement | None


class Layout:
    """A module with the way from a node to its statement, block and text."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.text = module.syntax.source
        self._starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", self.text))]
        first = re.search(r"\r\n|\r|\n", self.text)
        self.newline = first.group() if first else "\n"
        self.unit = "\t" if "\n\t" in self.text else "    "  # one step of indentation
        self.places: dict[ir.NodeId, Place] = {}
        self.holder: dict[ir.NodeId, ir.Statement] = {}
        self.nodes: dict[ir.NodeId, ir.Expression | ir.Statement] = {}
        self.enter(module.body, None)

    def enter(self, block: Block, parent: ir.Statement | None) -> None:
        for index, statement in enumerate(block):
            self.places[statement.node] = Place(block, index, parent)
            inner = [each for body in blocks(statement) for each in body]
            below = {id(each) for each in inner}
            for node in walk_own(statement, below):
                self.holder[node.node] = statement
                self.nodes[node.node] = node
            for body in blocks(statement):
                self.enter(body, statement)

    # ------------------------------------------------------------------ the tree

    def statement(self, node: ir.NodeId) -> ir.Statement:
        """The innermost statement that holds a node."""
        found = self.holder.get(node)
        if found is None:
            raise Unplannable("a part of it is out of reach of the rewriter")
        return found

    def parents(self, statement: ir.Statement) -> Iterator[ir.Statement]:
        parent = self.places[statement.node].parent
        while parent is not None:
            yield parent
            parent = self.places[parent.node].parent

    def function(self, statement: ir.Statement) -> ir.Function | None:
        return next((p for p in self.parents(statement) if isinstance(p, ir.Function)), None)

    def scope(self, function: ir.Function | None) -> Block:
        """The body of a function, or of the module."""
        return self.module.body if function is None else function.body

    def called_function(self, call: ir.Call) -> ir.Function:
        """The only function or method of the file that has the name of what is called."""
        name = called_name(call)
        found = [n for n in walk(self.module.body) if isinstance(n, ir.Function) and n.name == name]
        if len(found) != 1:
            raise Unplannable(f"`{name}` is defined more than once, or elsewhere")
        return found[0]

    def loops(self, statement: ir.Statement) -> list[ir.For | ir.While]:
        """The loops around a statement inside its function, innermost first."""
        found: list[ir.For | ir.While] = []
        for parent in self.parents(statement):
            if isinstance(parent, (ir.Function, ir.Class)):
                break
            if isinstance(parent, LOOPS):
                found.append(parent)
        return found

    def in_block(self, statement: ir.Statement, block: Block) -> int | None:
        """The index in `block` of the statement that is or holds `statement`."""
        for each in (statement, *self.parents(statement)):
            place = self.places[each.node]
            if place.block is block:
                return place.index
        return None

    def common_block(self, statements: list[ir.Statement]) -> Block:
        """The innermost block that holds all the statements, themselves or inside others."""
        for each in (statements[0], *self.parents(statements[0])):
            block = self.places[each.node].block
            if all(self.in_block(other, block) is not None for other in statements):
                return block
        raise Unplannable("the parts of its step are in different places")

    # ------------------------------------------------------------------ the text

    def offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def range(self, node: ir.NodeId) -> tuple[int, int]:
        span = self.module.syntax.span(node)
        return self.offset(span.line, span.column), self.offset(span.end_line, span.end_column)

    def source(self, node: ir.NodeId) -> str:
        """The text of a node as it is written, possibly on several lines."""
        start, end = self.range(node)
        return self.text[start:end]

    def flat(self, expression: ir.Expression) -> str:
        """The text of an expression on one line."""
        return self.module.syntax.text(expression.node)

    def line_start(self, statement: ir.Statement) -> int:
        """Where the line of a statement begins; refuses where it shares the line."""
        start, _ = self.range(statement.node)
        begin = self._starts[self.module.syntax.span(statement.node).line - 1]
        before = self.text[begin:start]
        if before.strip():
            raise Unplannable("several statements share a line")
        if self.text.startswith("elif", start):
            raise Unplannable("it would have to stand before an `elif`")
        return begin

    def line_end(self, statement: ir.Statement) -> int:
        """Where the line after a statement begins."""
        last = statement
        while isinstance(last, COMPOUND):
            bodies = [body for body in blocks(last) if body]
            if not bodies:
                break
            last = bodies[-1][-1]
        span = self.module.syntax.span(last.node)
        end = self.offset(span.end_line, span.end_column)
        following = self._starts[span.end_line] if span.end_line < len(self._starts) else len(self.text)
        rest = self.text[end:following].strip()
        if rest and not rest.startswith("#"):
            raise Unplannable("several statements share a line")
        return following

    def indent(self, statement: ir.Statement) -> str:
        begin = self.line_start(statement)
        return self.text[begin : self.range(statement.node)[0]]

    def one_line(self, statement: ir.Statement) -> str:
        """A statement with its comment, without its indentation; later lines are relative to it, joined by newlines."""
        indent = self.indent(statement)
        start, end = self.range(statement.node)[0], self.line_end(statement)
        lines = re.split(r"\r\n|\r|\n", self.text[start:end].rstrip())
        return "\n".join(line.removeprefix(indent) if number else line for number, line in enumerate(lines))

    def position(self, offset: int) -> tuple[int, int]:
        low, high = 0, len(self._starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._starts[middle] <= offset else (low, middle)
        return low + 1, offset - self._starts[low]


class Draft:
    """The edits of one repair, collected in any order."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._edits: list[tuple[int, int, int, str]] = []
        self.above: dict[ir.NodeId, list[str]] = {}  # lines that were inserted before or after a statement
        self.below: dict[ir.NodeId, list[str]] = {}
        self._within: dict[int, ir.Statement] = {}  # number of an edit -> the statement that it was put behind
        self._wrapped: Wrapped | None = None

    def replace(self, node: ir.NodeId, content: str) -> None:
        start, end = self.layout.range(node)
        self.put(start, end, content)

    def put(self, start: int, end: int, content: str, *, always: bool = False) -> None:
        if always or (start, end, content) not in {(a, b, c) for a, b, _, c in self._edits}:
            self._edits.append((start, end, len(self._edits), content))

    def before(self, statement: ir.Statement, *lines: str) -> None:
        """Insert lines before a statement, at its indentation; later calls stand below earlier ones."""
        start = self.layout.line_start(statement)
        self.above.setdefault(statement.node, []).extend(lines)
        self.put(start, start, self._lines(self.layout.indent(statement), lines), always=True)

    def after(self, statement: ir.Statement, *lines: str) -> None:
        indent = self.layout.indent(statement)
        end = self.layout.line_end(statement)
        text = self._lines(indent, lines)
        if end == len(self.layout.text) and not self.layout.text.endswith(("\n", "\r")):
            text = self.layout.newline + text[: -len(self.layout.newline)]
        self.below.setdefault(statement.node, []).extend(lines)
        self._within[len(self._edits)] = statement
        self.put(end, end, text, always=True)

    def delete(self, statement: ir.Statement, *, moved: bool = False) -> None:
        """Delete a statement with its line; a comment behind it stays, on a line of its own, unless it moved along."""
        place = self.layout.places[statement.node]
        start, end = self.layout.line_start(statement), self.layout.line_end(statement)
        comment = "" if moved else self.comment(statement)
        kept = self._lines(self.layout.indent(statement), [comment]) if comment else ""
        if len(place.block) == 1 and place.parent is not None:
            raise Unplannable("a block would be left empty")
        self.put(start, end, kept)

    def replace_whole(self, node: ir.NodeId, content: str) -> None:
        """Replace an expression together with the parentheses around it, which a plain name does not need."""
        start, end = self.layout.range(node)
        text = self.layout.text
        if (
            text[start - 1] == "("
            and text[end : end + 1] == ")"
            and text[: start - 1].rstrip(" \t").endswith(("\n", "\r"))
        ):
            start, end = start - 1, end + 1
        self.put(start, end, content)

    def wrap(self, loop: ir.For | ir.While, header: list[str], unit: str) -> None:
        """Put a loop one level deeper, below the lines of `header`, which stand where it stood."""
        start, end = self.layout.line_start(loop), self.layout.line_end(loop)
        indent = self.layout.indent(loop)
        for line in self.layout.text[end:].splitlines(keepends=True):  # comments at the end of its body
            if not line.strip().startswith("#") or not line.startswith(indent + unit[:1]):
                break
            end += len(line)
        if holds_long_string(self.layout.text, self.layout.position(start)[0], self.layout.position(end - 1)[0]):
            raise Unplannable("a string over several lines stands in its loop, which would be indented")
        self._wrapped = Wrapped(loop, start, end, self._lines(indent, header), unit)

    def wrap_body(
        self, loop: ir.For | ir.While, header: list[str], footer: list[str], unit: str, first: int = 0
    ) -> None:
        """Put the body of a loop, from a place on, one level deeper, below the lines of `header`; `footer` follows."""
        self.wrap(loop, [], unit)
        assert self._wrapped is not None
        body = loop.body[first]
        indent, start, end = self.layout.indent(body), self.layout.line_start(body), self._wrapped.end
        while (line := self.layout.text[:start].splitlines(keepends=True)[-1]).lstrip().startswith("#"):
            start -= len(line)
        self._wrapped = Wrapped(
            loop, start, end, self._lines(indent, header), unit, self._lines(indent, footer), body=True
        )

    def comment(self, statement: ir.Statement) -> str:
        """The comment behind a simple statement."""
        _, end = self.layout.range(statement.node)
        return self.layout.text[end : self.layout.line_end(statement)].strip()

    def _lines(self, indent: str, lines: Iterable[str]) -> str:
        return "".join(f"{indent if line else ''}{line}{self.layout.newline}" for line in lines)

    def edits(self) -> tuple[Edit, ...]:
        """Sorted and disjoint; at one place what stands behind a statement comes first, then the order of the calls."""
        edits = list(self._edits)
        if self._wrapped is not None:
            inside = [e for e in edits if self._wrapped.holds(e, self._within.get(e[2]), self.layout)]
            begin, end = self._wrapped.start, self._wrapped.end
            body = _applied(
                self.layout.text[begin:end], [(a - begin, b - begin, c) for a, b, c in _merged(inside, self._depth)]
            )
            edits = [e for e in edits if e not in inside]
            text = self._wrapped.indented(body)
            text += "" if text.endswith(("\n", "\r")) or not self._wrapped.footer else self.layout.newline
            edits.append((begin, end, len(self._edits), self._wrapped.header + text + self._wrapped.footer))
        return tuple(
            Edit(Span(*self.layout.position(a), *self.layout.position(b)), content)
            for a, b, content in _merged(edits, self._depth)
        )

    def _depth(self, number: int) -> int:
        """Where an edit goes among others at its place: what is put behind an inner statement comes first."""
        statement = self._within.get(number)
        return 1 if statement is None else -sum(1 for _ in self.layout.parents(statement))


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A loop, or with `body` only its body, that is put one level deeper: the text from `start` to `end`."""

    loop: ir.For | ir.While
    start: int
    end: int
    header: str
    unit: str
    footer: str = ""
    body: bool = False

    def holds(self, edit: tuple[int, int, int, str], behind: ir.Statement | None, layout: Layout) -> bool:
        """Whether an edit is inside; what is put before the loop or behind it is not."""
        start, end, _, _ = edit
        if self.body and start == end == self.start:
            return True
        if start == end and start in (self.start, self.end):
            return behind is not None and self.loop in layout.parents(behind)
        return self.start <= start and end <= self.end

    def indented(self, text: str) -> str:
        return "".join(self.unit + line if line.strip() else line for line in re.split(r"(?<=\n)|(?<=\r)(?!\n)", text))


def _merged(edits: list[tuple[int, int, int, str]], depth: Callable[[int], int]) -> list[tuple[int, int, str]]:
    merged: list[tuple[int, int, str]] = []
    for start, end, _, content in sorted(edits, key=lambda e: (e[0], e[1] > e[0], depth(e[2]), e[2])):
        if merged and start < merged[-1][1]:
            raise Unplannable("two changes of it touch each other")
        if merged and start == merged[-1][1] and merged[-1][0] == merged[-1][1] == start:
            merged[-1] = (start, end, merged[-1][2] + content)
        elif merged and start == merged[-1][1] == end:
            merged[-1] = (merged[-1][0], end, merged[-1][2] + content)
        else:
            merged.append((start, end, content))
    return merged


def _applied(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, end, content in reversed(edits):
        text = text[:start] + content + text[end:]
    return text


def holds_long_string(text: str, first: int, last: int) -> bool:
    """Whether a string literal goes over a line end between two lines (from 1)."""
    for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
        rows = token.start[0], token.end[0]
        if "STRING" in tokenize.tok_name[token.type] and rows[0] != rows[1] and first <= rows[1] and rows[0] <= last:
            return True
    return False


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text after the edits."""
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
    for edit in sorted(edits, key=lambda e: e.span, reverse=True):
        start = starts[edit.span.line - 1] + edit.span.column
        end = starts[edit.span.end_line - 1] + edit.span.end_column
        text = text[:start] + edit.content + text[end:]
    return text


def blocks(statement: ir.Statement) -> list[Block]:
    """The blocks that a statement holds, in the order of the source."""
    if isinstance(statement, (ir.If, ir.For, ir.While)):
        return [statement.body, statement.orelse]
    if isinstance(statement, ir.Try):
        return [statement.body, *(h.body for h in statement.handlers), statement.orelse, statement.final]
    if isinstance(statement, ir.Match):
        return [case.body for case in statement.cases]
    if isinstance(statement, (ir.With, ir.Function, ir.Class)):
        return [statement.body]
    return []


def walk_own(statement: ir.Statement, below: set[int]) -> Iterator[ir.Expression | ir.Statement]:
    """A statement and its own expressions, without the statements of its blocks."""
    from accumlint.reading.walk import children

    pending: list[ir.Expression | ir.Statement] = [statement]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(child for child in children(node) if id(child) not in below)


def names_in(node: ir.Expression | ir.Statement) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ir.Name)}
