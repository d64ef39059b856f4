"""How the microbatches of a window are brought together before the first forward, in the style of the loop.

- a loop over one window (`for micro in range(K)`, `for x, y in window`, `for part in batch.split(n)`): the count stands
  before it; batches that the body fetches are fetched before it;
- a loop over all batches with a boundary inside: windows are cut with `islice`, the body stands one level deeper;
- a loop over step numbers that fetches: the window is fetched on its first microbatch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from accumlint.reading import ir
from accumlint.reading.walk import called_name, walk
from accumlint.repair.ahead import bound_names
from accumlint.repair.boundary import Window, steps_text
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Draft, Layout, Unplannable

ITERATORS = ("enumerate", "zip", "iter", "map", "islice")


@dataclass(frozen=True, slots=True)
class Collection:
    """Where a window is collected.

    `loop` is the loop over its microbatches, `names` what is known of a microbatch before its forward, `start` the
    statement that binds them; `write` makes the edits, given the names of totals, each with the count of one microbatch
    that it is the sum of, and the lines that follow them.
    """

    loop: ir.For
    names: set[str]
    start: ir.Statement
    write: Callable[[list[tuple[str, str]], list[str]], None]


def collect(window: Window, draft: Draft, names: Names, steps: str = "") -> Collection:
    """The way that fits the loop; Unplannable where the window cannot be collected.

    `steps` is the number of accumulation steps where a library knows it.
    """
    layout, loop = window.layout, window.loop
    if not isinstance(loop, ir.For) or loop.is_async:
        raise Unplannable("its window cannot be collected: the loop is no plain `for`")
    if loop.orelse:
        raise Unplannable("its window cannot be collected: the loop has an `else`")
    if _leaves(layout, loop):
        raise Unplannable("its window cannot be collected: a `break` or `return` leaves the loop")
    fetch = find_fetch(layout, loop)
    inside = [loop in layout.loops(step) for ending in window.endings for step in ending.steps]
    over_steps = _is_range(loop.iterable) and layout.flat(loop.iterable).endswith(f"({steps})") and bool(steps)
    if not any(inside) or over_steps:
        return _whole_window(window, loop, fetch, draft, names)
    steps = steps or _constant_steps(window, loop)
    if fetch is not None:
        return _refilled(window, loop, fetch, steps, draft, names)
    return _cut(window, loop, steps, draft, names)


def _leaves(layout: Layout, loop: ir.For) -> bool:
    for node in walk(loop.body, into_scopes=False):
        if isinstance(node, ir.Return):
            return True
        if isinstance(node, ir.Break) and layout.loops(node)[:1] == [loop]:
            return True
    return False


# ------------------------------------------------------------------------------------------------------------ fetching


def find_fetch(layout: Layout, loop: ir.For) -> ir.Assign | None:
    """The statement of a loop over numbers that gets the batch: `x, y = next(batches)`, `batch = get_batch()`."""
    if not _is_range(loop.iterable):
        return None
    found = [s for s in walk(loop.body, into_scopes=False) if isinstance(s, ir.Assign) and _fetches(s.value)]
    if not found:
        return None
    if len(found) > 1 or not any(found[0] is s for s in loop.body) or len(found[0].targets) != 1:
        raise Unplannable("its window cannot be collected: the batch is fetched in a branch, or in several places")
    call = found[0].value
    assert isinstance(call, ir.Call)
    assigned = {name for statement in walk(loop) for name in bound_names(statement)}
    if any(isinstance(n, ir.Name) and n.id in assigned for n in walk(call)):
        raise Unplannable("its window cannot be collected: what is fetched depends on what the loop computes")
    if any(isinstance(n, ir.Call) and n is not call for n in walk(call)):
        raise Unplannable("its window cannot be collected: the batch is fetched by more than one call")
    return found[0]


def _fetches(value: ir.Expression) -> bool:
    if not isinstance(value, ir.Call):
        return False
    if isinstance(value.function, ir.Name) and value.function.id == "next":
        return len(value.arguments) == 1
    name = called_name(value).lower()
    return "batch" in name and any(word in name for word in ("get", "next", "load", "sample", "fetch", "draw"))


def _is_range(node: ir.Expression) -> bool:
    return (
        isinstance(node, ir.Call)
        and isinstance(node.function, ir.Name)
        and node.function.id in ("range", "trange")
        and len(node.arguments) == 1
        and not node.arguments[0].star
    )


# ------------------------------------------------------------------------------------------------------------ the ways


def _whole_window(window: Window, loop: ir.For, fetch: ir.Assign | None, draft: Draft, names: Names) -> Collection:
    """The loop runs over one window."""
    layout = window.layout
    if fetch is None:
        again = _repeatable(window, loop.iterable)
        held = "" if again else names.free("window")

        def write(totals: list[tuple[str, str]], lines: list[str]) -> None:
            source = held or layout.flat(loop.iterable)
            if held:
                draft.before(loop, f"{held} = list({layout.flat(loop.iterable)})")
                draft.put(*layout.range(loop.iterable.node), held)
            draft.before(loop, *sums(layout, loop.target, totals, source), *lines)

        return Collection(loop, set(bound_names(loop)), loop, write)
    held = names.free("window")
    target = fetch.targets[0]

    def write_fetched(totals: list[tuple[str, str]], lines: list[str]) -> None:
        iterable = layout.flat(loop.iterable).replace("trange", "range", 1)
        shown = layout.flat(target)
        draft.before(loop, f"{held} = [{layout.flat(fetch.value)} for _ in {iterable}]")
        draft.before(loop, *sums(layout, target, totals, held), *lines)
        start, end = layout.range(loop.target.node)[0], layout.range(loop.iterable.node)[1]
        number = layout.flat(loop.target)
        if number != "_" and any(isinstance(n, ir.Name) and n.id == number for n in walk(loop.body)):
            nested = f"({shown})" if isinstance(target, ir.Display) and not shown.startswith("(") else shown
            draft.put(start, end, f"{number}, {nested} in enumerate({held})")
        else:
            draft.put(start, end, f"{shown} in {held}")
        draft.delete(fetch)

    return Collection(loop, set(bound_names(fetch)), fetch, write_fetched)


def _refilled(window: Window, loop: ir.For, fetch: ir.Assign, steps: str, draft: Draft, names: Names) -> Collection:
    """A loop over step numbers whose windows end inside: the first microbatch of a window fetches all of it."""
    layout = window.layout
    if not isinstance(loop.target, ir.Name) or loop.target.id == "_":
        raise Unplannable("its window cannot be collected: the loop does not count its steps")
    step, held = loop.target.id, names.free("window")
    assert isinstance(loop.iterable, ir.Call)
    stop = loop.iterable.arguments[0].value
    size = steps
    if not _multiple(layout, stop, steps):
        shown = layout.flat(stop)
        shown = shown if isinstance(stop, (ir.Name, ir.Attribute, ir.Constant)) else f"({shown})"
        size = f"min({steps}, {shown} - {step})"

    def write(totals: list[tuple[str, str]], lines: list[str]) -> None:
        draft.before(
            fetch,
            f"if {step} % {steps} == 0:",
            f"{layout.unit}{held} = [{layout.flat(fetch.value)} for _ in range({size})]",
            *[f"{layout.unit}{line}" for line in (*sums(layout, fetch.targets[0], totals, held), *lines)],
        )
        draft.put(*layout.range(fetch.value.node), f"{held}[{step} % {steps}]")

    return Collection(loop, set(bound_names(fetch)), fetch, write)


def _cut(window: Window, loop: ir.For, steps: str, draft: Draft, names: Names) -> Collection:
    """A loop over all batches: windows are cut off its iterator, the body runs once more inside."""
    layout = window.layout
    if _is_range(loop.iterable):
        raise Unplannable("its window cannot be collected: where the batch of a step comes from is not plain")
    read = {n.id for n in walk(loop.iterable) if isinstance(n, ir.Name)}
    takes = [
        n for n in walk(loop.body) if isinstance(n, ir.Call) and getattr(n.function, "id", "") in ("next", "islice")
    ]
    if any(isinstance(n, ir.Name) and n.id in read for call in takes for n in walk(call)):
        raise Unplannable("its window cannot be collected: the loop also takes batches from its iterator itself")
    if {name for statement in walk(loop.body) for name in bound_names(statement)} & read:
        raise Unplannable("its window cannot be collected: the loop changes what it iterates over")
    source, held = names.free("batches"), names.free("window")

    def write(totals: list[tuple[str, str]], lines: list[str]) -> None:
        shown = layout.flat(loop.iterable)
        called = loop.iterable.function if isinstance(loop.iterable, ir.Call) else None
        if not isinstance(called, ir.Name) or called.id not in ITERATORS:
            shown = f"iter({shown})"
        header = [
            f"{source} = {shown}",
            f"while {held} := list({import_islice(layout, draft)}({source}, {steps})):",
            *[f"{layout.unit}{line}" for line in (*sums(layout, loop.target, totals, held), *lines)],
        ]
        draft.wrap(loop, header, layout.unit)
        draft.put(*layout.range(loop.iterable.node), held)

    return Collection(loop, set(bound_names(loop)), loop, write)


def _constant_steps(window: Window, loop: ir.For) -> str:
    """The number of steps as it is written, not given anew in the loop."""
    text = steps_text(window)
    for statement in walk(loop):
        if any(name in bound_names(statement) for name in text.replace(".", " ").split()):
            raise Unplannable("its window cannot be collected: the number of steps changes in the loop")
    return text


def _multiple(layout: Layout, stop: ir.Expression, steps: str) -> bool:
    return (
        isinstance(stop, ir.Binary)
        and stop.operator == "*"
        and steps in (layout.flat(stop.left), layout.flat(stop.right))
    )


def _repeatable(window: Window, iterable: ir.Expression) -> bool:
    """Whether going through it twice gives the same: ranges, lists, parts of tensors, and what joins them."""
    if isinstance(iterable, ir.Display):
        return True
    if isinstance(iterable, ir.Call):
        name = called_name(iterable)
        if name == "range":
            return True
        if isinstance(iterable.function, ir.Attribute) and name in ("split", "chunk", "unbind", "tensor_split"):
            return True
        if name in ("enumerate", "zip", "reversed", "tqdm"):
            return all(_repeatable(window, a.value) for a in iterable.arguments[: 1 if name == "enumerate" else None])
        return False
    if not isinstance(iterable, ir.Name):
        return False
    scope = window.layout.scope(window.function)
    calls = [n for n in walk(scope) if isinstance(n, ir.Call) and getattr(n.function, "id", "") == "len"]
    if any(isinstance(a.value, ir.Name) and a.value.id == iterable.id for call in calls for a in call.arguments):
        return True
    if any(isinstance(n, ir.Walrus) and n.target.id == iterable.id and _is_list(n.value) for n in walk(scope)):
        return True
    given = [n.value for n in walk(scope) if isinstance(n, ir.Assign) and iterable.id in bound_names(n)]
    return bool(given) and all(_is_list(value) for value in given)


def _is_list(value: ir.Expression) -> bool:
    if isinstance(value, ir.Call):
        return getattr(value.function, "id", "") in ("list", "tuple", "sorted")
    return isinstance(value, ir.Display) or (isinstance(value, ir.Comprehension) and value.kind == "list")


def sums(layout: Layout, target: ir.Expression, totals: list[tuple[str, str]], source: str) -> list[str]:
    """The lines that count a window."""
    return [f"{total} = sum({count} for {target_of(layout, target, count)} in {source})" for total, count in totals]


def target_of(layout: Layout, target: ir.Expression, count: str) -> str:
    """The loop target for a count: what it does not read is `_`."""
    import ast

    read = {n.id for n in ast.walk(ast.parse(count, mode="eval")) if isinstance(n, ast.Name)}

    def shown(node: ir.Expression, outer: bool) -> str:
        if isinstance(node, ir.Name):
            return node.id if node.id in read else "_"
        if isinstance(node, ir.Display):
            if not read & set(bound_names(ir.Assign(node.node, (node,), node))):
                return "_"
            inner = ", ".join(shown(each, False) for each in node.elements) + ("," if len(node.elements) == 1 else "")
            return inner if outer else f"({inner})"
        if isinstance(node, ir.Starred):
            return f"*{shown(node.value, False)}"
        return layout.flat(node)

    return shown(target, True)


def import_islice(layout: Layout, draft: Draft) -> str:
    """How `islice` is called in the file; its import is added where there is none."""
    imports = [s for s in layout.module.body if isinstance(s, ir.Import)]
    bindings = {name: target for each in imports for name, target in each.bindings}
    for name, target in bindings.items():
        if target in ("itertools.islice", "itertools"):
            return name if target.endswith("islice") else f"{name}.islice"
    if any(isinstance(n, ir.Name) and n.id == "islice" for n in walk(layout.module.body)):
        raise Unplannable("its window cannot be collected: `islice` means something else in this file")
    own = [s for s in imports if _roots(s) and _roots(s) <= set(sys.stdlib_module_names) - {"__future__"}]
    future = [s for s in imports if "__future__" in _roots(s)]
    others = [s for s in imports if s not in future]
    line = "from itertools import islice"
    if own:
        draft.after(own[-1], line)
    elif others:
        draft.before(others[0], line, "")
    elif future:
        draft.after(future[-1], "", line)
    else:
        raise Unplannable("its window cannot be collected: the file imports nothing")
    return "islice"


def _roots(statement: ir.Import) -> set[str]:
    return {target.partition(".")[0] for _, target in statement.bindings}
