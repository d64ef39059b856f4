"""What the parts of the interpreter ask of parts that stand further up: declared here, defined there.

The interpreter is a stack of classes, one file each, from numbers to library effects. A lower part sometimes needs a
higher one (an expression calls a function, a statement enters a context manager); this class declares those calls, so
that each file can be read and type-checked on its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accumlint.semantics.learning import Learning

if TYPE_CHECKING:
    from accumlint.apis.language import Effect, Row
    from accumlint.reading import ir
    from accumlint.semantics.frames import Frame
    from accumlint.semantics.functions import Arguments
    from accumlint.semantics.values import ClassValue, Context, LibraryCall, Object, Opaque, Value


class Base(Learning):
    """The state of a path with the interpreter's upper parts declared."""

    def evaluate(self, node: ir.Expression, frame: Frame) -> Value:
        raise NotImplementedError

    def execute(self, block: tuple[ir.Statement, ...], frame: Frame) -> None:
        raise NotImplementedError

    def choose(self, test: Value, node: ir.NodeId, *, relevant: bool, default: bool) -> bool:
        raise NotImplementedError

    def known_items(self, value: Value, limit: int = 300) -> list[Value] | None:
        raise NotImplementedError

    def elements_of(self, value: Value, node: ir.NodeId, limit: int | None) -> list[Value]:
        raise NotImplementedError

    def assign(self, target: ir.Expression, value: Value, frame: Frame) -> None:
        raise NotImplementedError

    def get_attribute(self, value: Value, name: str, node: ir.NodeId) -> Value:
        raise NotImplementedError

    def need(self, name: str, frame: Frame) -> None:
        raise NotImplementedError

    def free_name(self, name: str, node: ir.NodeId) -> Value:
        raise NotImplementedError

    def bound_value(self, frame: Frame, name: str) -> Value:
        raise NotImplementedError

    def follow(self, target: str, frame: Frame | None) -> Value:
        raise NotImplementedError

    def import_all(self, target: str, frame: Frame) -> None:
        raise NotImplementedError

    def call(self, callee: Value, arguments: Arguments, node: ir.NodeId, frame: Frame | None) -> Value:
        raise NotImplementedError

    def call_expression(self, node: ir.Call, frame: Frame) -> Value:
        raise NotImplementedError

    def eval_comprehension(self, node: ir.Comprehension, frame: Frame) -> Value:
        raise NotImplementedError

    def scale_gradient(self, target: Value, operator: str, by: Value, node: ir.NodeId) -> None:
        raise NotImplementedError

    def clear_gradients(self, target: Value, node: ir.NodeId, *, gated: bool = False) -> None:
        raise NotImplementedError

    def perform_setter(self, row: Row, receiver: Value, value: Value, node: ir.NodeId) -> None:
        raise NotImplementedError

    def enter(self, context: Context) -> Value:
        raise NotImplementedError

    def leave(self, context: Context) -> None:
        raise NotImplementedError

    def is_context(self, row: Row) -> bool:
        raise NotImplementedError

    def apply(self, call: LibraryCall) -> Value:
        raise NotImplementedError

    def handle(self, effect: Effect, call: LibraryCall) -> Any:
        raise NotImplementedError

    def is_loader(self, value: Value) -> bool:
        raise NotImplementedError

    def iterate_instance(self, value: Object, node: ir.NodeId) -> Value:
        raise NotImplementedError

    def no_arguments(self) -> Arguments:
        raise NotImplementedError

    def set_rank_divisor(self, by: Value) -> None:
        raise NotImplementedError

    def detached(self, value: Value) -> Value:
        raise NotImplementedError

    def truth(self, value: Value) -> bool | None:
        raise NotImplementedError

    def canonical_base(self, owner: ClassValue) -> str:
        raise NotImplementedError

    def find_member(self, owner: ClassValue, name: str) -> Value:
        raise NotImplementedError

    def learn_from(self, test: Opaque) -> None:
        raise NotImplementedError
