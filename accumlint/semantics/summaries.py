"""What a block, such as the body of a function, can do by itself: the events in it, whom it calls, what it binds.

One walk over the block finds all of it, once a check: a run enters a function again for each call, but what the
function can do at all is the same each time. What it reaches through others is `Relevance`'s to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from accumlint.reading import ir
from accumlint.reading.record import thing
from accumlint.reading.walk import blocks, called_name, header, walk

EVENT_WORDS = frozenset(
    {
        "backward", "manual_backward", "step", "zero_grad", "clip_grad_norm_", "clip_grad_norm", "clip_grad_value_",
        "clip_gradients", "unscale_", "unscale", "scale", "no_sync", "no_backward_sync", "accumulate", "scale_loss",
        "set_requires_gradient_sync", "scale_grads", "multiply_grads", "backward_step", "set_gradient_divide_factor",
    }
)  # fmt: skip
"""Methods and functions that do something to gradients or clocks, whoever's they are."""

GRADIENT_ATTRIBUTES = frozenset({"grad", "require_backward_grad_sync"})
_COMMON = frozenset({"train", "eval", "forward", "to", "update", "save", "load", "log", "reset", "close", "get", "run"})
"""Method names that other objects have too: `model.train()` is not the file's own `train`."""
_JUMPS = (ir.Continue, ir.Break, ir.Return)
_BINDS = (ir.Assign, ir.Augment, ir.Delete)


@dataclass(eq=False, slots=True)
class Effects:
    """What running some code can do by itself: the event words in it, and the names under which it may call a function
    of the program."""

    words: set[str] = field(default_factory=set)
    follows: set[str] = field(default_factory=set)

    def note(self, node: object) -> None:
        """Take in one node of the code."""
        if isinstance(node, ir.Call):
            name = called_name(node)
            if name in EVENT_WORDS:
                self.words.add(name)
            elif name == "update" and "scaler" in receiver_text(node):
                self.words.add("update")
            elif followed := followed_name(node):
                self.follows.add(followed)
        elif isinstance(node, _BINDS):
            targets = (node.target,) if isinstance(node, ir.Augment) else node.targets
            self.words |= {t.name for t in targets if isinstance(t, ir.Attribute) and t.name in GRADIENT_ATTRIBUTES}


@thing
class Block:
    """What a piece of code does by itself, from one walk over it: what it can reach, the last names of all that it
    calls, the names that it binds (`self.x` as "x"), whether it may leave the loop or function around it, and whether
    it does so by a `continue` of its own (in none of the blocks inside it)."""

    effects: Effects
    called: frozenset[str]
    binds: frozenset[str]
    jumps: bool
    continues: bool


def read_block(block: Sequence[ir.Statement], within: Callable[[tuple[ir.Statement, ...]], Block]) -> Block:
    """What a block does, without the bodies of functions and classes that it only defines; `within` answers for the
    blocks inside it, so that a statement is looked at once however deep it stands."""
    effects = Effects()
    called: set[str] = set()
    binds: set[str] = set()
    jumps = False
    for statement in block:
        if isinstance(statement, (ir.Function, ir.Class)):
            continue
        effects.note(statement)
        if isinstance(statement, ir.Assign):
            binds.update(_bound_in(statement.targets))
        elif isinstance(statement, (ir.Augment, ir.For)):
            binds.update(_bound_in((statement.target,)))
        elif isinstance(statement, _JUMPS):
            jumps = True
        for inner in map(within, blocks(statement)):
            effects.words |= inner.effects.words
            effects.follows |= inner.effects.follows
            called |= inner.called
            binds |= inner.binds
            jumps = jumps or inner.jumps
        for node in walk(header(statement), into_scopes=False):
            if type(node) is ir.Call:
                called.add(called_name(node))
                effects.note(node)
            elif type(node) is ir.Walrus:
                binds.update(_bound_in((node.target,)))
    continues = any(isinstance(statement, ir.Continue) for statement in block)
    return Block(effects, frozenset(called), frozenset(binds), jumps, continues)


def _bound_in(targets: Iterable[ir.Expression]) -> Iterator[str]:
    for target in targets:
        if isinstance(target, ir.Name):
            yield target.id
            continue
        for part in walk(target):
            if isinstance(part, ir.Name):
                yield part.id
            elif isinstance(part, ir.Attribute):
                yield part.name


def nodes_of(statement: ir.Statement) -> Iterator[object]:
    """All nodes of a statement, without the bodies of functions and classes that it only defines."""
    if isinstance(statement, (ir.Function, ir.Class)):
        return iter(())
    return walk(statement, into_scopes=False)


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
