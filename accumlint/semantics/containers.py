"""Methods of lists, dicts, deques and strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from accumlint.reading import ir
from accumlint.semantics.values import Items, Mapping, Opaque, Value, path_of

if TYPE_CHECKING:
    from accumlint.semantics.calls import Arguments

_Plain: TypeAlias = "str | int | float | bool | bytes | None"


def call_container(machine: Any, receiver: Value, name: str, arguments: Arguments, node: ir.NodeId) -> Any:
    """A method of a known container; NotImplemented where the receiver is none, or has no such method."""
    if isinstance(receiver, Opaque):
        if not receiver.gradient and name in ("get", "pop") and arguments.positional:
            return _lookup(machine, receiver, arguments, node)
        if name in ("items", "values", "keys") and not arguments.positional:
            path = f"{receiver.path}.{name}()"
            return Opaque(path, receiver.lineage, receiver.gradient, receiver.modules, receiver.facts, node)
    elif isinstance(receiver, Items):
        if name in _LIST:
            return _LIST[name](machine, receiver, arguments, node)
    elif isinstance(receiver, Mapping):
        if name in _DICT:
            return _DICT[name](machine, receiver, arguments, node)
    elif isinstance(receiver, str):
        return Opaque(f"{receiver!r}.{name}()")
    return NotImplemented


def _lookup(machine: Any, receiver: Opaque, arguments: Arguments, node: ir.NodeId) -> Value:
    """`config.get("name", default)` and `batch.pop("labels")` read an item."""
    key = arguments.positional[0]
    result = machine.opaque(f"{receiver.path}[{path_of(key)}]", receiver, node=node)
    return Opaque(result.path, receiver.lineage, False, receiver.modules, receiver.facts, node)


def _append(machine: Any, receiver: Items, arguments: Arguments, node: ir.NodeId) -> Value:
    receiver.items += arguments.positional[:1]
    return None


def _extend(machine: Any, receiver: Items, arguments: Arguments, node: ir.NodeId) -> Value:
    for value in arguments.positional[:1]:
        receiver.items += machine.known_items(value) or [value]
    return None


def _pop(machine: Any, receiver: Items, arguments: Arguments, node: ir.NodeId) -> Value:
    if not receiver.items:
        return Opaque("pop()")
    place = machine.as_number(arguments.positional[0]) if arguments.positional else None
    whole = -1 if place is None else place.as_int()
    if whole is None or not -len(receiver.items) <= whole < len(receiver.items):
        whole = -1
    return receiver.items.pop(whole)


def _popleft(machine: Any, receiver: Items, arguments: Arguments, node: ir.NodeId) -> Value:
    return receiver.items.pop(0) if receiver.items else Opaque("popleft()")


def _clear(machine: Any, receiver: Items, arguments: Arguments, node: ir.NodeId) -> Value:
    receiver.items.clear()
    return None


def _copy(machine: Any, receiver: Items, arguments: Arguments, node: ir.NodeId) -> Value:
    return Items(receiver.kind, list(receiver.items), receiver.key)


def _insert(machine: Any, receiver: Items, arguments: Arguments, node: ir.NodeId) -> Value:
    receiver.items += arguments.positional[1:2]
    return None


def _nothing(machine: Any, receiver: Value, arguments: Arguments, node: ir.NodeId) -> Value:
    return None


def _get(machine: Any, receiver: Mapping, arguments: Arguments, node: ir.NodeId) -> Value:
    key = arguments.positional[0] if arguments.positional else None
    default = arguments.positional[1] if len(arguments.positional) > 1 else None
    if isinstance(key, (str, int, float, bool, bytes, type(None))):
        if key in receiver.items:
            return receiver.items[key]
        return receiver.rest if receiver.rest is not None else default
    return machine.opaque(f"{{...}}[{path_of(key)}]", *receiver.items.values(), node=node)  # type: ignore[no-any-return]


def _pop_key(machine: Any, receiver: Mapping, arguments: Arguments, node: ir.NodeId) -> Value:
    value = _get(machine, receiver, arguments, node)
    key = arguments.positional[0] if arguments.positional else None
    if isinstance(key, (str, int, float, bool, bytes, type(None))):
        receiver.items.pop(key, None)
    return value


def _pairs(machine: Any, receiver: Mapping, arguments: Arguments, node: ir.NodeId) -> Value:
    pairs: list[Value] = [Items("tuple", [key, value]) for key, value in receiver.items.items()]  # type: ignore[list-item]
    if receiver.rest is not None:
        pairs.append(Items("tuple", [Opaque("key"), receiver.rest]))
    return Items("list", pairs)


def _values(machine: Any, receiver: Mapping, arguments: Arguments, node: ir.NodeId) -> Value:
    rest = [] if receiver.rest is None else [receiver.rest]
    return Items("list", [*receiver.items.values(), *rest])


def _keys(machine: Any, receiver: Mapping, arguments: Arguments, node: ir.NodeId) -> Value:
    return Items("list", list(receiver.items))  # type: ignore[arg-type]


def _update(machine: Any, receiver: Mapping, arguments: Arguments, node: ir.NodeId) -> Value:
    for value in arguments.positional:
        if isinstance(value, Mapping):
            receiver.items |= value.items
        else:  # any default may have been overwritten
            plain = [k for k, v in receiver.items.items() if isinstance(v, (bool, int, float, str, type(None)))]
            receiver.items.update({key: Opaque(str(key), node=node) for key in plain})
    receiver.items.update(arguments.keywords)
    return None


_LIST: dict[str, Callable[[Any, Items, Arguments, ir.NodeId], Value]] = {
    "append": _append,
    "appendleft": _append,
    "add": _append,
    "extend": _extend,
    "pop": _pop,
    "popleft": _popleft,
    "clear": _clear,
    "copy": _copy,
    "insert": _insert,
    "sort": _nothing,
    "reverse": _nothing,
    "remove": _nothing,
}
_DICT: dict[str, Callable[[Any, Mapping, Arguments, ir.NodeId], Value]] = {
    "get": _get,
    "pop": _pop_key,
    "setdefault": _get,
    "items": _pairs,
    "values": _values,
    "keys": _keys,
    "update": _update,
    "copy": lambda machine, receiver, arguments, node: Mapping(dict(receiver.items), receiver.rest),
}
