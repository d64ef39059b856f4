"""Python's own functions, as far as training loops use them. Iterators (`enumerate`, `zip`, ...) are table rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from accumlint.reading import ir
from accumlint.semantics.arithmetic import constant
from accumlint.semantics.numbers import Num, combine, number
from accumlint.semantics.values import (
    Canonical,
    ClassValue,
    Form,
    FunctionValue,
    Items,
    Mapping,
    Object,
    Opaque,
    RangeValue,
    Stream,
    Value,
    lineage_of,
    path_of,
)

if TYPE_CHECKING:
    from accumlint.semantics.calls import Arguments

Handler: TypeAlias = "Callable[[Any, Arguments, ir.NodeId], Value]"


def _range(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    given = [constant(value) for value in arguments.positional]
    if len(given) == 1:
        return RangeValue(0, given[0], 1, node)
    if len(given) == 2:
        return RangeValue(given[0], given[1], 1, node)
    if len(given) == 3:
        return RangeValue(given[0], given[1], given[2], node)
    return Opaque("range()")


def _len(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    value = arguments.positional[0] if arguments.positional else None
    if isinstance(value, Items):
        return len(value.items)
    if isinstance(value, Mapping) and value.rest is None:
        return len(value.items)
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, Stream) and value.length is not None:
        return value.length
    if isinstance(value, RangeValue):
        known = machine.known_items(value)
        return len(known) if known is not None else Opaque(f"len({path_of(value)})")
    if isinstance(value, Object) and value.instance is not None:
        member = machine.find_member(value.instance, "__len__")
        if member is not None:
            return Opaque(f"len({value.path})")
    is_cut = isinstance(value, Opaque) and value.kind == "parts"
    if isinstance(value, (Opaque, Object)) and (is_cut or not lineage_of(value)):
        key = machine.key_of(value)
        if is_cut or _is_collection(value) or key in machine.knowledge.lengths or machine.is_loader(value):
            length = int(machine.length_of_key(key))
            return number(length, f"len({path_of(value)})") if is_cut else length
        return Opaque(f"len({path_of(value)})", parts=None)
    if isinstance(value, Opaque) and machine.is_window(machine.key_of(value)):
        return int(machine.length_of_key(machine.key_of(value)))
    if isinstance(value, Opaque) and all(atom.kind == "random" for atom in value.lineage):
        machine.sized[f"len({value.path})"] = machine.key_of(value)
    return machine.size_of(value, f"len({path_of(value)})")  # type: ignore[no-any-return]


def _is_collection(value: Opaque | Object) -> bool:
    last = value.path.rpartition(".")[2].lower()
    return any(word in last for word in ("loader", "iter", "batches", "dl", "chunks", "window", "samples", "epoch_itr"))


def _int(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    value = arguments.positional[0] if arguments.positional else 0
    known = machine.as_number(value)
    if known is not None:
        if known.is_constant and known.as_int() is None:
            floor = combine("//", known, number(1))
            return floor if floor is not None else known
        return known  # type: ignore[no-any-return]
    if isinstance(value, Opaque):
        return Opaque(
            f"int({value.path})", value.lineage, False, value.modules, value.facts, node, ("int", (value,)), value.wants
        )
    return machine.opaque(f"int({path_of(value)})", value, node=node, gradient=False)  # type: ignore[no-any-return]


def _float(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    value = arguments.positional[0] if arguments.positional else 0.0
    if isinstance(value, Form):
        return machine.detached(value)  # type: ignore[no-any-return]
    if isinstance(value, str):
        return Opaque(f"float({value})")
    return value


def _bool(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    value = arguments.positional[0] if arguments.positional else False
    truth = machine.truth(value)
    return value if truth is None else truth


def _extreme(word: str) -> Handler:
    def handler(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
        values = list(arguments.positional)
        if len(values) == 1:
            values = machine.known_items(values[0]) or values
        numbers = [machine.as_number(value) for value in values]
        if values and all(n is not None for n in numbers):
            result = numbers[0]
            for other in numbers[1:]:
                result = combine(word, result, other)
            whole = result.as_int() if isinstance(result, Num) and not result.unknowns else None
            return result if whole is None else whole
        opaque = machine.opaque(f"{word}({', '.join(path_of(v) for v in values)})", *values, node=node, gradient=False)
        parts = (word, tuple(values)) if values else None  # `max(*sizes)`: of nothing that can be named
        return Opaque(opaque.path, opaque.lineage, False, opaque.modules, opaque.facts, node, parts)

    return handler


def _sum(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    source = arguments.positional[0] if arguments.positional else None
    items = machine.known_items(source)
    if items is None:
        if isinstance(source, Opaque) and source.gradient:
            return source
        return machine.reduced(source, "sum", node)  # type: ignore[no-any-return]
    total: Value = arguments.positional[1] if len(arguments.positional) > 1 else arguments.keywords.get("start", 0)
    if not items and not isinstance(source, Items):
        return machine.opaque(f"sum({path_of(source)})", source, node=node)  # type: ignore[no-any-return]
    for item in items:
        total = item if total == 0 and isinstance(item, (Form, Opaque)) else machine.binary("+", total, item, node)
    return total


def _parts_of(machine: Any, value: Opaque) -> list[Value]:
    """The elements of an unknown list: microbatches of which nothing says how long they are."""
    length = machine.length_of_key(machine.key_of(value))
    return [Opaque(f"{value.path}[{i}]", frozenset({machine.new_atom("part", 1)})) for i in range(length)]


def _list(kind: str) -> Handler:
    def handler(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
        if not arguments.positional:
            return Items(kind, [])
        value = arguments.positional[0]
        key = (
            value.key
            if isinstance(value, (Items, Stream))
            else f"range@{value.node}"
            if isinstance(value, RangeValue)
            else ""
        )
        items = machine.known_items(value)
        if items is None and isinstance(value, Opaque) and value.path in machine.knowledge.emptied:
            items = _parts_of(machine, value)
        if items is not None:
            return Items(kind, list(items), key)
        return value

    return handler


def _dict(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    made = Mapping({})
    for value in arguments.positional:
        if isinstance(value, Mapping):
            made.items |= value.items
            made.rest = made.rest or value.rest
        else:
            made.rest = machine.opaque(f"{path_of(value)}[...]", value, node=node)
    made.items |= {name: value for name, value in arguments.keywords.items() if name not in ("*", "**")}
    return made


def _abs(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    value = arguments.positional[0] if arguments.positional else 0
    if isinstance(value, (int, float)):
        return abs(value)
    return machine.opaque(f"abs({path_of(value)})", value, node=node)  # type: ignore[no-any-return]


def _round(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    value = arguments.positional[0] if arguments.positional else 0
    return value if isinstance(value, (int, Num, Opaque)) else Opaque(f"round({path_of(value)})")


def _isinstance(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    if len(arguments.positional) != 2:
        return Opaque("isinstance()")
    value, kind = arguments.positional
    name = kind.name.rpartition(".")[2] if isinstance(kind, Canonical) else ""
    if isinstance(value, (bool, int, float, str)) and name in ("int", "float", "str", "bool", "list", "tuple", "dict"):
        return isinstance(value, {"int": int, "float": float, "str": str, "bool": bool}.get(name, list))
    if isinstance(value, Items) and name in ("list", "tuple"):
        return value.kind == name
    if isinstance(value, Mapping) and name == "dict":
        return True
    if isinstance(value, Object) and isinstance(kind, ClassValue) and value.instance is kind:
        return True
    return Opaque(f"isinstance({path_of(value)}, {path_of(kind)})", node=node)


def _hasattr(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    if len(arguments.positional) == 2 and isinstance(arguments.positional[1], str):
        value, name = arguments.positional
        if isinstance(value, Object) and name in value.attributes:
            return True
    return Opaque(f"hasattr({', '.join(path_of(v) for v in arguments.positional)})", node=node)


def _getattr(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    given = arguments.positional
    if len(given) >= 2 and isinstance(given[1], str):
        value = machine.get_attribute(given[0], given[1], node)
        return value if value is not None or len(given) < 3 else given[2]
    return machine.opaque("getattr()", *given, node=node)  # type: ignore[no-any-return]


def _setattr(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    given = arguments.positional
    if len(given) == 3 and isinstance(given[1], str):
        machine.set_attribute(given[0], given[1], given[2], node)
    return None


def _print(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    machine.note_logged("", "print", arguments.values, node)
    return None


def _map(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    if len(arguments.positional) == 2:
        function, source = arguments.positional
        items = machine.known_items(source)
        if items is not None and isinstance(function, FunctionValue):
            return Items("list", [machine.call(function, type(arguments)([item]), node, None) for item in items])
        return source
    return machine.opaque("map()", *arguments.positional, node=node)  # type: ignore[no-any-return]


def _filter(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    return arguments.positional[-1] if arguments.positional else None


def _sorted(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    return arguments.positional[0] if arguments.positional else None


def _quantifier(word: str) -> Handler:
    def handler(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
        items = machine.known_items(arguments.positional[0]) if arguments.positional else None
        if items is not None:
            truths = [machine.truth(item) for item in items]
            if all(t is not None for t in truths):
                return all(truths) if word == "all" else any(truths)
        return machine.opaque(f"{word}(...)", *arguments.positional, node=node, gradient=False)  # type: ignore[no-any-return]

    return handler


def _divmod(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    if len(arguments.positional) != 2:
        return Opaque("divmod()")
    left, right = arguments.positional
    return Items("tuple", [machine.binary("//", left, right, node), machine.binary("%", left, right, node)])


def _vars(machine: Any, arguments: Arguments, node: ir.NodeId) -> Value:
    return arguments.positional[0] if arguments.positional else Opaque("vars()")


BUILTINS: dict[str, Handler] = {
    "range": _range,
    "len": _len,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "sum": _sum,
    "list": _list("list"),
    "tuple": _list("tuple"),
    "set": _list("set"),
    "dict": _dict,
    "abs": _abs,
    "round": _round,
    "isinstance": _isinstance,
    "hasattr": _hasattr,
    "getattr": _getattr,
    "setattr": _setattr,
    "print": _print,
    "map": _map,
    "filter": _filter,
    "sorted": _sorted,
    "all": _quantifier("all"),
    "any": _quantifier("any"),
    "divmod": _divmod,
    "vars": _vars,
}
