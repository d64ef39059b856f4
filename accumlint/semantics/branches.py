"""Branches: which side is taken where the code does not say, and what is learned from asking."""

from __future__ import annotations

import re
from collections.abc import Iterator

from accumlint.reading import ir
from accumlint.reading.walk import walk
from accumlint.semantics.expressions import Expressions
from accumlint.semantics.frames import Frame
from accumlint.semantics.knowledge import STEPS_NAME, Raised, Restart, Stopped
from accumlint.semantics.relevance import ends_in, leaves_program
from accumlint.semantics.trace import Guard
from accumlint.semantics.values import (
    Opaque,
    Value,
    lineage_of,
    path_of,
)


class Branches(Expressions):
    """Executes `if` and `match`."""

    def exec_if(self, node: ir.If, frame: Frame) -> None:
        begin, relevance = self.spent, self.program.relevance
        test = self.evaluate(node.test, frame)
        truth = self.truth(test)
        if truth is None and isinstance(test, Opaque) and self._learns_from_test(test, node, frame, begin):
            test = self.evaluate(node.test, frame)
            truth = self.truth(test)
        numeric = truth is not None and not isinstance(node.test, ir.Constant)
        is_open = truth is None
        guessed = is_open and not relevance.words(node.body)
        if truth is None:
            asked = (node.node, path_of(test))
            chosen = self.chosen.get(asked)
            truth = self.choose_branch(test, node, frame) if chosen is None else chosen
            if self._is_settled(test, node):
                self.chosen[asked] = truth
            self._note_missing(test, node, frame, truth=truth)
        else:
            self.trace.tests.setdefault(node.node, set()).add(truth)
            if relevance.block(node.body).continues:
                self.trace.skips.add(node.node)
        if is_open and (passed := relevance.words(node.orelse if truth else node.body)):
            self.trace.untaken.update(dict.fromkeys(passed, node.node))
        self.anchored(node.node)
        taken = node.body if truth else node.orelse
        if not taken:
            return
        self.guards.append(Guard(node.node, truth, numeric))
        self.guessing += guessed
        try:
            self.execute(taken, frame)
        except Raised as raised:
            if is_open and not self.setting_up:
                self._avoid(test, raised)
            raise
        finally:
            self.guessing -= guessed
            self.guards.pop()

    def _is_settled(self, test: Value, node: ir.If) -> bool:
        """Whether asking a test again can tell nothing more: no number is learned from it, and its side does not rest
        on what the names that it binds hold by then."""
        if isinstance(test, Opaque) and test.wants:
            return False
        relevance = self.program.relevance
        quiet = not (relevance.words(node.body) or relevance.words(node.orelse))
        return not (quiet and relevance.block(node.body).binds)

    def _avoid(self, test: Value, raised: Raised) -> None:
        """A guess about the configuration led to an exception that nobody expects: the other side is likelier."""
        key = _asked(test)
        if lineage_of(test) or key not in self.answers or key in self.forced or key in self.knowledge.preferred:
            return
        if any({raised.kind, "", "Exception", "BaseException"} & kinds for kinds in self.catching):
            return
        self.knowledge.preferred[key] = not self.answers[key]
        raise Restart

    def _learns_from_test(self, test: Opaque, node: ir.If, frame: Frame, begin: int) -> bool:
        """Learn the number of steps where nothing before the test rests on it: the test alone is evaluated again."""
        wanted = next(self._wanted(test), None)
        if wanted is None or not self._decides(node, frame) or not _is_plain(node.test):
            return False
        return self.learns_here(wanted, begin)

    def _decides(self, node: ir.If, frame: Frame) -> bool:
        """Whether events hang on a test, or what other tests look at."""
        relevance = self.program.relevance
        body = relevance.block(node.body)
        if relevance.words(node.body) or relevance.words(node.orelse):
            return True
        if body.continues:
            return True
        if len(node.body) == 1 and isinstance(node.body[0], ir.Return) and "step" in relevance.reached_by(frame.name):
            return True
        # with K known, an interval without events is one of logging
        return not self.knowledge.steps_paths and not body.binds.isdisjoint(relevance.tested(node))

    def _note_missing(self, test: Value, node: ir.If, frame: Frame, *, truth: bool) -> None:
        """Remember which losses stay unbound because of a guess about the configuration."""
        names = self.program.relevance.left_unbound(node, truth=truth)
        if not names or lineage_of(test) or self.setting_up:
            return
        key = _asked(test)
        for name in names if key in self.answers else ():
            if frame.find(name) is None:
                frame.missing = {**(frame.missing or {}), name: key}

    def need(self, name: str, frame: Frame) -> None:
        """A name is read that nothing has bound: if a guess is why, the path is one that Python would not survive."""
        scope: Frame | None = frame
        while scope is not None:
            key = (scope.missing or {}).get(name)
            if key is not None and key in self.forced:
                raise Stopped(f"{name} is not bound where {key[:60]} is {self.answers[key]}")
            if key is not None and key not in self.knowledge.preferred:
                self.knowledge.preferred[key] = not self.answers[key]
                raise Restart
            scope = scope.parent

    def choose_branch(self, test: Value, node: ir.If, frame: Frame) -> bool:
        """Which side of an undecided `if` this path takes, and whether the other side is worth a path of its own."""
        relevance = self.program.relevance
        then, orelse = relevance.words(node.body), relevance.words(node.orelse)
        body = relevance.block(node.body)
        if isinstance(test, Opaque) and test.wants and self._decides(node, frame):
            self.learn_from(test)
        accumulates = means_accumulation(path_of(test))
        if accumulates is not None:
            return self.choose(test, node.node, relevant=False, default=accumulates)
        if leaves_program(node.body):
            return False
        if leaves_program(node.orelse):
            return True
        data = bool(lineage_of(test))
        if not then and not orelse:
            return self._choose_quiet(test, node, frame, data=data)
        if data and body.jumps:
            return self.choose(test, node.node, relevant=False, default=False)
        leaves = body.jumps and ends_in(node.body, (ir.Continue, ir.Return))
        default = bool(then)
        if then and leaves:
            default = not orelse and self._says_boundary(node)
        self.fork = "backward" in (orelse if default else then)
        return self.choose(test, node.node, relevant=not data, default=default)

    def _says_boundary(self, node: ir.If) -> bool:
        return "backward" not in self.program.relevance.words(node.body)

    def _choose_quiet(self, test: Value, node: ir.If, frame: Frame, *, data: bool) -> bool:
        """A branch without events: keep names defined, do not leave loops, follow what the loss goes through."""
        body = self.program.relevance.block(node.body)
        if body.jumps:
            return self.choose(test, node.node, relevant=False, default=False)
        found = {name: frame.find(name) for name in body.binds}
        touches_loss = any(f is not None and self._is_loss(f.names[name]) for name, f in found.items())
        if touches_loss:
            learns = not self.knowledge.steps_paths
            return self.choose(test, node.node, relevant=not data, default=not data, learns=learns)
        unbound = any(f is None for f in found.values())
        overwrites = not data and "update" in body.called
        return self.choose(test, node.node, relevant=False, default=unbound or overwrites)

    def learn_from(self, test: Opaque) -> None:
        """Learn the number of accumulation steps from a test that guards events."""
        for unknown in self._wanted(test):
            self.learn_steps(unknown)

    def _wanted(self, test: Opaque) -> Iterator[Opaque]:
        """The unknowns that would decide a test and may be the number of steps."""
        return (unknown for unknown, why in test.wants if self.is_open(unknown) and (why == "modulo" or self.loops))

    def choose(self, test: Value, node: ir.NodeId, *, relevant: bool, default: bool, learns: bool = True) -> bool:
        """The answer to an undecided test. If it is `relevant` its other answer has a path of its own, and if it
        `learns` besides, the number of steps is learned from it."""
        if isinstance(test, Opaque):
            if test.wants and relevant and learns:
                self.learn_from(test)
            if test.parts is not None and test.parts[0] == "not":
                return not self.choose(test.parts[1][0], node, relevant=relevant, default=not default, learns=learns)
        return self.decide(path_of(test), default, node, data=bool(lineage_of(test)), may_flip=relevant)

    def exec_match(self, node: ir.Match, frame: Frame) -> None:
        subject = self.evaluate(node.subject, frame)
        fallback: ir.Case | None = None
        for case in node.cases:
            for name in case.names:
                frame.bind(name, subject)
            if case.is_wildcard or case.value is None:
                fallback = fallback or case
                continue
            wanted = self.evaluate(case.value, frame)
            answer = self.compared("==", subject, wanted, node.node)
            truth = self.truth(answer)
            if truth is None:
                words = self.program.relevance.words(case.body)
                truth = self.choose(answer, node.node, relevant=bool(words), default=False)
            if truth:
                self.execute(case.body, frame)
                return
        if fallback is not None:
            self.execute(fallback.body, frame)


def _asked(test: Value) -> str:
    """The key of the condition that a test asks for, or negates."""
    while isinstance(test, Opaque) and test.parts is not None and test.parts[0] == "not":
        test = test.parts[1][0]
    return path_of(test)


def _is_plain(test: ir.Expression) -> bool:
    """Whether a test can be evaluated twice: it calls nothing but `len`."""
    for part in walk(test):
        if isinstance(part, ir.Call) and not (isinstance(part.function, ir.Name) and part.function.id == "len"):
            return False
        if isinstance(part, (ir.Walrus, ir.Await, ir.Yield, ir.Comprehension, ir.Lambda)):
            return False
    return True


_ONE_STEP = re.compile(r"(\S+) (==|<=|<|>|!=|>=) ([12])$")


def means_accumulation(text: str) -> bool | None:
    """The answer of `accum > 1`, `accum == 1` where it is about a number of steps: this run accumulates."""
    asked = _ONE_STEP.fullmatch(text)
    if asked is None or not STEPS_NAME.search(asked[1]):
        return None
    return {"==": False, "<=": False, "<": False, ">": True, "!=": True, ">=": True}[asked[2]]
