"""Numbers of the configuration: which of them is the number of accumulation steps is learned from what is done with it.

Most often it can be learned on the way. An unknown stays an unknown in what is worked out from it (`len(loader) // K`),
so that nothing rests on its value until somebody has to know it; and who has to know a number that is named like a
number of steps is given K at once, until the run has shown whether it is one. Where something rests on its being
unknown, the path is run again with what was learned (`Restart`).
"""

from __future__ import annotations

from fractions import Fraction

from accumlint.semantics.knowledge import STEPS_NAME, Restart, is_configured
from accumlint.semantics.machine import MachineState
from accumlint.semantics.numbers import POINTS, Num, combine, number
from accumlint.semantics.points import generic_value
from accumlint.semantics.values import Opaque, Value


class Learning(MachineState):
    """Asks for numbers, and learns which of them is K."""

    def as_number(self, value: Value) -> Num | None:
        """The number that a value is, if it is one in this run."""
        if isinstance(value, Opaque):
            path = value.path
            known = self.knowledge.numbers.get(path)
            if known is not None and (not value.lineage or is_configured(value)):
                made = self.configured.get(path)
                if made is None or made.at[0] is not known:
                    made = self.configured[path] = Num((known,) * POINTS, path, frozenset({path}))
                return made
            if value.parts is not None:
                return self._work_out(value)
            return None if self.postponing else self._suppose(value)
        if isinstance(value, Num):
            return value
        if isinstance(value, int):
            return number(value)
        if isinstance(value, float):
            return number(value) if value == value and abs(value) != float("inf") else None
        return None

    def _work_out(self, value: Opaque) -> Num | None:
        if value.parts is None or value.parts[0] in ("and", "or", "not", "compare", "format"):
            return None
        operator, operands = value.parts
        if operator == "%" and self.is_supposed(operands[1]):
            return None  # what hangs on it will tell
        numbers = [self.as_number(operand) for operand in operands]
        if any(n is None for n in numbers):
            return None
        known = [n for n in numbers if n is not None]
        if operator == "int":
            return known[0] if known[0].as_int() is not None else combine("//", known[0], number(1))
        result = known[0]
        for other in known[1:]:
            combined = combine(operator, result, other)
            if combined is None:
                return None
            result = combined
        return result

    def _suppose(self, unknown: Opaque) -> Num | None:
        """Somebody has to know a number that has the name of a number of accumulation steps: it is taken for one, until
        the run has shown whether it is (`learns_here`; `run` takes it back where it has not)."""
        path, knowledge = unknown.path, self.knowledge
        if path in self.unanswered:
            return None
        named = not (knowledge.steps_paths or self.setting_up or knowledge.supposed) and STEPS_NAME.search(path)
        if not named or path in knowledge.refused or not is_configured(unknown):
            self.unanswered[path] = self.spent
            return None
        knowledge.numbers[path] = Fraction(knowledge.steps)
        knowledge.supposed[path] = None
        return self.as_number(unknown)

    def is_supposed(self, value: Value) -> bool:
        """Whether a value is a number that is only supposed to be the number of steps, or was computed from one."""
        supposed = self.knowledge.supposed
        if not supposed or not isinstance(value, (Opaque, Num)):
            return False
        if isinstance(value, Num):
            return not supposed.keys().isdisjoint(value.unknowns)
        return value.path in supposed or (value.parts is not None and any(map(self.is_supposed, value.parts[1])))

    def confirm_steps(self, value: Value) -> None:
        """A number is used as a number of steps is: if it was only supposed to be one, it is one."""
        if isinstance(value, Opaque) and self.is_supposed(value):
            self.learn_steps(value)

    def steps_number(self, value: Value) -> Num | None:
        """The number that a value is where it is used as a number of steps: learned if it is not known, and confirmed
        if it was only supposed."""
        if isinstance(value, Opaque) and (self.as_number(value) is None or self.is_supposed(value)):
            self.learn_steps(value)
        return self.as_number(value)

    def learns_here(self, unknown: Opaque, since: int) -> bool:
        """Take an unknown for the number of accumulation steps without running again: nobody asked for its value
        before the run had come to `since`, and what was worked out from it is unknown itself and asks it again."""
        leaf, knowledge = self._leaf(unknown), self.knowledge
        supposed = leaf.path in knowledge.supposed
        if (leaf.path in knowledge.numbers and not supposed) or not is_configured(leaf) or self.setting_up:
            return False
        if self.unanswered.get(leaf.path, since) < since:
            return False
        self._take(leaf.path)
        return True

    def _take(self, path: str) -> None:
        """From now on an unknown is the number of accumulation steps, whatever it was taken for."""
        self.knowledge.factors.pop(path, None)
        self.knowledge.supposed.pop(path, None)
        self.knowledge.numbers[path] = Fraction(self.knowledge.steps)
        self.knowledge.steps_paths[path] = None

    def learn_steps(self, unknown: Opaque) -> None:
        """Take an unknown for the number of accumulation steps, and run again."""
        leaf = self._leaf(unknown)
        if leaf.path in self.knowledge.supposed and leaf.path not in self.unanswered and self.learns_here(leaf, 0):
            return
        meant = leaf.path not in self.knowledge.factors and leaf.path not in self.knowledge.supposed
        if (leaf.path in self.knowledge.numbers and meant) or not is_configured(leaf) or self.setting_up:
            return
        self._take(leaf.path)
        raise Restart

    def _leaf(self, unknown: Opaque) -> Opaque:
        if unknown.parts is not None and unknown.parts[0] in ("max", "min", "int", "*", "-", "+"):
            open_parts = [p for p in unknown.parts[1] if isinstance(p, Opaque) and self.is_open(p)]
            if len(open_parts) == 1:
                return self._leaf(open_parts[0])
        return unknown

    def is_open(self, value: Value) -> bool:
        """Whether a value is no number yet, or only has a value without a meaning."""
        return self.number_for_now(value) is None or self.is_factor(value) or self.is_supposed(value)

    def number_for_now(self, value: Value) -> Num | None:
        """The number that a value is, asked by one who keeps the value and asks again: nothing rests on the answer."""
        if isinstance(value, Num):
            return value
        if not isinstance(value, Opaque):
            return self.as_number(value)
        self.postponing += 1
        try:
            return self.as_number(value)
        finally:
            self.postponing -= 1

    def is_factor(self, value: Value) -> bool:
        """Whether an unknown was given a value without a meaning, or was computed from one."""
        if not self.knowledge.factors or not isinstance(value, (Opaque, Num)):
            return False
        if isinstance(value, Num):
            return not self.knowledge.factors.keys().isdisjoint(value.unknowns)
        if value.path in self.knowledge.factors:
            return True
        return value.parts is not None and any(self.is_factor(part) for part in value.parts[1])

    def learn_factor(self, unknown: Opaque) -> Num:
        """Give an unknown that multiplies or divides a loss a value without a meaning."""
        known = self.as_number(unknown)
        if known is not None:
            return known
        if unknown.path not in self.knowledge.numbers:
            self.knowledge.numbers[unknown.path] = generic_value(self.knowledge.generic)
            self.knowledge.factors[unknown.path] = None
            self.knowledge.generic += 1
        return number(self.knowledge.numbers[unknown.path], unknown.path, frozenset({unknown.path}))
