"""Scopes of names."""

from __future__ import annotations

from dataclasses import dataclass, field

from accumlint.reading.program import Module
from accumlint.semantics.values import ClassValue, Value


@dataclass(eq=False, slots=True)
class Frame:
    """The names of one running function (or of the module); `parent` is where its free names are looked up."""

    name: str
    parent: Frame | None = None
    names: dict[str, Value] = field(default_factory=dict)
    shared: dict[str, Frame] = field(default_factory=dict)  # `global` and `nonlocal` names
    owner: ClassValue | None = None
    receiver: Value = None
    collected: list[Value] | None = None  # what a generator has yielded so far
    origin: Module | None = None  # of the frame of a module: which one
    wanted: int | None = None  # after how many values a generator is left
    missing: dict[str, str] | None = None  # names that the other side of a branch binds, with the branch's condition

    def find(self, name: str) -> Frame | None:
        """The frame that binds a name, from here outwards; None for a `global` one that is not bound yet."""
        if name in self.shared:
            return self.shared[name] if name in self.shared[name].names else None
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame
            frame = frame.parent
        return None

    def bind(self, name: str, value: Value) -> None:
        self.shared.get(name, self).names[name] = value

    @property
    def module(self) -> Frame:
        frame = self
        while frame.parent is not None:
            frame = frame.parent
        return frame
