"""Which statements can touch a loss, a gradient or the clock, read off the text.

Undecided branches are forked only where it matters. This is decided without running anything: by what a block does
itself, and by the summaries of the functions that it calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from accumlint.reading import ir
from accumlint.reading.prefilter import BACKWARDS
from accumlint.reading.project import FOREIGN, Project
from accumlint.reading.walk import called_name, walk
from accumlint.semantics.summaries import Block, nodes_of, read_block

_EXITS = frozenset({"exit", "_exit", "abort"})


@dataclass(eq=False)
class Relevance:
    """Answers about the blocks and functions of one file and of the modules that it follows.

    Answers about blocks are remembered by the identity of the block, those about functions by their name: a call does
    not say more.
    """

    functions: dict[str, list[ir.Function]]
    keywords: set[str]  # names of keyword arguments given anywhere in the file
    losses: frozenset[str] = frozenset()  # names that are backpropagated somewhere in the file
    followed: dict[int, tuple[object, Block]] = field(default_factory=dict)  # of modules that other files follow too
    _blocks: dict[int, tuple[object, Block]] = field(default_factory=dict)  # with the block, so that it stays alive
    _words: dict[int, frozenset[str]] = field(default_factory=dict)
    _reached: dict[str, frozenset[str]] = field(default_factory=dict)
    _tests: dict[int, frozenset[str]] = field(default_factory=dict)
    _unbound: dict[tuple[int, bool], frozenset[str]] = field(default_factory=dict)
    _alone: dict[int, tuple[ir.Statement]] = field(default_factory=dict)
    _added: set[int] = field(default_factory=set)
    _kept: list[object] = field(default_factory=list)  # blocks whose identity is a key stay alive

    @classmethod
    def of(cls, nodes: Iterable[ir.Statement | ir.Expression], project: Project | None = None) -> Relevance:
        """What the nodes of a file say, all of them in order (`Module.nodes`)."""
        functions: dict[str, list[ir.Function]] = {}
        keywords: set[str] = set()
        losses: set[str] = set()
        for node in nodes:
            if type(node) is ir.Call:
                for argument in node.arguments:
                    if argument.keyword:
                        keywords.add(argument.keyword)
                if called_name(node) in BACKWARDS:
                    values = [node.function.value] if isinstance(node.function, ir.Attribute) else []
                    values += [argument.value for argument in node.arguments]
                    losses |= {part.id for value in values for part in walk(value) if isinstance(part, ir.Name)}
            elif type(node) is ir.Function:
                functions.setdefault(node.name, []).append(node)
        return cls(functions, keywords, frozenset(losses), {} if project is None else project.blocks)

    def extend(self, body: tuple[ir.Statement, ...], functions: Iterable[ir.Function]) -> None:
        """Add the functions of another module that is followed; a module that was added before adds nothing."""
        if id(body) in self._added:
            return
        self._added.add(id(body))
        self._kept.append(body)
        for function in functions:
            self.functions.setdefault(function.name, []).append(function)
        self._words.clear()
        self._reached.clear()

    # ------------------------------------------------------------------------------------------ functions

    def reached_by(self, name: str) -> frozenset[str]:
        """The event words that calling a function by its name can reach; none for a name that no function has."""
        known = self._reached.get(name)
        if known is None:
            self._settle(name)
            known = self._reached[name]
        return known

    def _settle(self, name: str) -> None:
        """Find what a function and all that it can call reach: each is looked at once, calls in a circle included."""
        order, found, calls = [name], dict[str, frozenset[str]](), dict[str, list[str]]()
        for each in order:  # grows meanwhile
            if each in found or each in self._reached:
                continue
            effects = [self.block(function.body).effects for function in self.functions.get(each, ())]
            found[each] = frozenset(word for effect in effects for word in effect.words)
            calls[each] = [called for effect in effects for called in effect.follows if called in self.functions]
            order += calls[each]
        changed = True
        while changed:
            changed = False
            for each in reversed(found):
                words = found[each].union(*(found.get(c) or self._reached.get(c) or () for c in calls[each]))
                changed |= len(words) > len(found[each])
                found[each] = words
        self._reached |= found

    # --------------------------------------------------------------------------------------------- blocks

    def block(self, block: tuple[ir.Statement, ...]) -> Block:
        """What a block does by itself."""
        blocks = self.followed if block and block[0].node >= FOREIGN else self._blocks
        known = blocks.get(id(block))
        if known is None:
            known = blocks[id(block)] = (block, read_block(block, self.block))
        return known[1]

    def words(self, block: tuple[ir.Statement, ...]) -> frozenset[str]:
        """The event words that running a block can reach, through functions of the program too."""
        known = self._words.get(id(block))
        if known is None:
            effects = self.block(block).effects
            known = frozenset(effects.words).union(*map(self.reached_by, effects.follows & self.functions.keys()))
            self._words[id(block)] = known
        return known

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

    def left_unbound(self, node: ir.If, *, truth: bool) -> frozenset[str]:
        """The names of losses that only the other side of an `if` binds."""
        known = self._unbound.get((id(node), truth))
        if known is None:
            taken, other = (node.body, node.orelse) if truth else (node.orelse, node.body)
            known = self.losses & self.block(other).binds - self.block(taken).binds
            self._unbound[id(node), truth] = known
            self._kept.append(node)
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
