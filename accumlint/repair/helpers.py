"""Losses that are not a plain call of torch in the loop: masked means by hand, and losses inside a helper."""

from __future__ import annotations

from dataclasses import replace

from accumlint.apis.language import Count
from accumlint.reading import ir
from accumlint.reading.walk import called_name, walk
from accumlint.repair.counts import SHAPING, Leaf, read_leaf
from accumlint.repair.hidden import read_hidden
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Draft, Layout, Unplannable
from accumlint.semantics.values import Site

SUMS = ("sum",)
PURE = frozenset({"float", "bool", "masked_fill", "clone", "eq", "ne", "gt", "ge", "lt", "le"})


def read_masked(layout: Layout, site: Site, quotient: ir.Binary) -> Leaf:
    """`(x * m).sum() / m.sum()`: the sum is its numerator, the count its denominator without the guard against zero."""
    numerator, denominator = quotient.left, quotient.right
    core, guarded = _unguarded(denominator)
    summed = (
        isinstance(core, ir.Call)
        and not core.arguments
        and isinstance(core.function, ir.Attribute)
        and core.function.name in SUMS
    )
    if not summed and not isinstance(core, ir.Name):
        raise Unplannable(f"whether `{layout.flat(denominator)}` counts the targets is not plain")
    if any(isinstance(n, ir.Call) and n is not core and not _shapes(n) for n in walk(core)):
        raise Unplannable("the mask of the loss is computed by a call")
    text = layout.source(quotient.node)
    start, _ = layout.range(quotient.node)
    left_end = layout.range(numerator.node)[1]
    shown = layout.text[start:left_end]
    shown += ")" * (shown.count("(") - shown.count(")"))
    return Leaf(
        site, quotient, text, shown, f"float({layout.flat(core)})", Count.WEIGHT_SUM, exact=False, finite=guarded,
        arguments={"numerator": layout.flat(numerator), "denominator": layout.flat(denominator)},
    )  # fmt: skip


def _shapes(call: ir.Call) -> bool:
    return isinstance(call.function, ir.Attribute) and call.function.name in SHAPING | PURE


def _unguarded(node: ir.Expression) -> tuple[ir.Expression, bool]:
    """A denominator without `.clamp(min=1)`, `max(..., 1)` or `+ eps`."""
    if isinstance(node, ir.Call) and isinstance(node.function, ir.Attribute):
        if node.function.name in ("clamp", "clamp_min", "clamp_") and len(node.arguments) == 1:
            if isinstance(node.function.value, ir.Name) and node.function.value.id == "torch":
                return node, False
            return node.function.value, True
        if node.function.name in ("clamp", "clamp_min") and len(node.arguments) == 2:
            first = node.arguments[0].value
            if isinstance(node.function.value, ir.Name) and node.function.value.id == "torch":
                return first, True
    largest = isinstance(node, ir.Call) and isinstance(node.function, ir.Name) and node.function.id == "max"
    if isinstance(node, ir.Call) and largest and len(node.arguments) == 2:
        return (node.arguments[0].value, True) if isinstance(node.arguments[1].value, ir.Constant) else (node, False)
    if isinstance(node, ir.Binary) and node.operator == "+" and isinstance(node.right, ir.Constant):
        value = node.right.value
        if isinstance(value, float) and value < 1e-3:
            return node.left, True
    return node, False


def lift_helper(
    layout: Layout, site: Site, call: ir.Call, draft: Draft, names: Names, divisions: frozenset[int] = frozenset()
) -> Leaf:
    """The leaf of a loss inside a function of the file, counted beside the call."""
    inner, function = _of_helper(layout, site, call)
    called = function.name
    masked, removed = _return_path(layout, function, site, divisions)
    leaf = _inner_leaf(layout, site, inner, masked, names, called)
    environment = _environment(layout, function, call)
    count = _substituted(layout, function, leaf.count_text, environment)
    alone = _uses(layout, called) == 1
    text = layout.source(call.node)
    lifted = Leaf(
        site, call, text, text, count, leaf.count, exact=leaf.exact, finite=leaf.finite,
        arguments=leaf.arguments, elsewhere=list(leaf.elsewhere), declared=leaf.declared,
    )  # fmt: skip
    if removed and not alone:
        raise Unplannable(f"`{called}` divides by the number of steps and is used elsewhere")
    for division in removed:
        keep = layout.range(division.left.node)[1]
        draft.put(keep, layout.range(division.node)[1], "")
    if not alone or not leaf.sum_text:
        if leaf.elsewhere and not alone:
            lifted.elsewhere = []
        lifted.sum_text = ""
        return lifted
    if leaf.sum_text != leaf.mean_text:
        draft.put(*layout.range(leaf.expression.node), leaf.sum_text)
    return lifted


def read_part(layout: Layout, site: Site, root: ir.Expression, call: ir.Call, part: object, names: Names) -> Leaf:
    """The leaf of a loss that a helper returns beside other things: its mean stays, and is multiplied by its count."""
    inner, function = _of_helper(layout, site, call)
    masked, removed = _return_path(layout, function, site, frozenset(), part)
    assert not removed
    leaf = _inner_leaf(layout, site, inner, masked, names, function.name)
    count = _substituted(layout, function, leaf.count_text, _environment(layout, function, call))
    return Leaf(
        replace(site, node=root.node), root, layout.source(root.node), "", count, leaf.count, exact=leaf.exact,
        finite=leaf.finite, arguments=leaf.arguments, declared=leaf.declared,
    )  # fmt: skip


def _of_helper(layout: Layout, site: Site, call: ir.Call) -> tuple[ir.Expression | ir.Statement, ir.Function]:
    """Where the loss is born, and the plain function of the file that a call calls and that holds it."""
    inner = layout.nodes.get(site.node)
    if inner is None:
        raise Unplannable("the loss is out of reach of the rewriter")
    function = layout.function(layout.statement(inner.node))
    called = called_name(call)
    if function is None or function.name != called:
        raise Unplannable("the loss is computed out of sight, or deeper than one helper")
    if function.is_generator or function.is_async or function.decorators:
        raise Unplannable(f"`{called}` is no plain function")
    return inner, function


def _inner_leaf(
    layout: Layout, site: Site, inner: ir.Expression | ir.Statement, masked: ir.Binary | None, names: Names, called: str
) -> Leaf:
    if site.hidden is not None and isinstance(inner, (ir.Attribute, ir.Subscript, ir.Call)):
        leaf = read_hidden(layout, site, inner)
    else:
        leaf = read_masked(layout, site, masked) if masked is not None else read_leaf(layout, site, names)
    if leaf.setup:
        raise Unplannable(f"the target of the loss in `{called}` is computed by a call")
    return leaf


def _uses(layout: Layout, name: str) -> int:
    return sum(
        (isinstance(n, ir.Name) and n.id == name) or (isinstance(n, ir.Attribute) and n.name == name)
        for n in walk(layout.module.body)
    )


def _return_path(
    layout: Layout, function: ir.Function, site: Site, divisions: frozenset[int], part: object = None
) -> tuple[ir.Binary | None, list[ir.Binary]]:
    """From the only return to the loss: through factors only. Returns the masked quotient and divisions by K.

    `part` is the key or the place of the loss in what is returned.
    """
    returns = [n for n in walk(function.body, into_scopes=False) if isinstance(n, ir.Return)]
    if len(returns) != 1 or returns[0].value is None:
        raise Unplannable(f"`{function.name}` returns in several ways")
    expression = returns[0].value if part is None else _part(function, returns[0].value, part)
    removed: list[ir.Binary] = []
    for _ in range(12):
        if expression.node == site.node:
            if site.reduction == "sum":
                raise Unplannable("what divides the summed loss is not plain")
            return None, removed
        if isinstance(expression, ir.Binary) and expression.operator in "*/":
            left = _has(expression.left, site) or (isinstance(expression.left, ir.Name) and expression.operator == "/")
            if expression.node in divisions and expression.operator == "/":
                removed.append(expression)
            elif expression.operator == "/" and _has(expression.left, site) and site.reduction == "sum":
                return expression, removed
            expression = expression.left if left or not _has(expression.right, site) else expression.right
        elif isinstance(expression, ir.Name):
            expression = _only_value(function, expression.id)
        else:
            break
    raise Unplannable(f"what `{function.name}` returns is not plainly the loss")


def _part(function: ir.Function, returned: ir.Expression, part: object) -> ir.Expression:
    """The entry of a dict, or the element of a tuple, that a function returns."""
    if isinstance(returned, ir.Name):
        returned = _only_value(function, returned.id)
    if isinstance(returned, ir.DictDisplay):
        found = [value for key, value in returned.items if isinstance(key, ir.Constant) and key.value == part]
        if len(found) == 1:
            return found[0]
    if isinstance(returned, ir.Display) and isinstance(part, int) and 0 <= part < len(returned.elements):
        return returned.elements[part]
    raise Unplannable(f"where the loss stands in what `{function.name}` returns is not plain")


def _has(expression: ir.Expression, site: Site) -> bool:
    return any(node.node == site.node for node in walk(expression))


def _only_value(function: ir.Function, name: str) -> ir.Expression:
    found = [
        n for n in walk(function.body)
        if (isinstance(n, ir.Assign) and any(isinstance(t, ir.Name) and t.id == name for t in n.targets))
        or (isinstance(n, ir.Augment) and isinstance(n.target, ir.Name) and n.target.id == name)
    ]  # fmt: skip
    if len(found) != 1 or not isinstance(found[0], ir.Assign):
        raise Unplannable(f"`{name}` gets several values in `{function.name}`")
    return found[0].value


def _environment(layout: Layout, function: ir.Function, call: ir.Call) -> dict[str, ir.Expression | str]:
    """What the helper's parameters stand for, at its call."""
    parameters = [p.name for p in function.parameters if p.kind == "positional"]
    found: dict[str, ir.Expression | str] = {}
    if isinstance(call.function, ir.Attribute) and parameters[:1] == ["self"]:
        found["self"] = layout.flat(call.function.value)
        parameters = parameters[1:]
    for position, argument in enumerate(call.arguments):
        if argument.star:
            raise Unplannable(f"the arguments of `{function.name}` are passed with a star")
        name = argument.keyword or (parameters[position] if position < len(parameters) else "")
        found[name] = argument.value
    for parameter in function.parameters:
        if parameter.default is not None and isinstance(parameter.default, (ir.Constant, ir.Unary)):
            found.setdefault(parameter.name, parameter.default)
    return found


def count_at_caller(layout: Layout, call: ir.Call, count: str) -> str:
    """The text of a count inside a function of the file, in the names of a call of it."""
    function = layout.called_function(call)
    return _substituted(layout, function, count, _environment(layout, function, call))


def _substituted(layout: Layout, function: ir.Function, count: str, environment: dict[str, ir.Expression | str]) -> str:
    """The count text with the helper's locals and parameters replaced by what the caller passes."""
    import re

    text = count
    known = {p.name for p in function.parameters}
    local = {
        n.id for s in walk(function.body) if isinstance(s, ir.Assign) for t in s.targets for n in walk(t)
        if isinstance(n, ir.Name)
    }  # fmt: skip
    for _ in range(12):
        tokens = [
            m for m in re.finditer(r"(?<![\w.\"'\0])([A-Za-z_]\w*)(?!\w*[\"'(])", text) if m.group(1) in known | local
        ]
        if not tokens:
            break
        match = tokens[0]
        text = (
            text[: match.start()] + _value(layout, function, match.group(1), environment, local) + text[match.end() :]
        )
    else:
        raise Unplannable(f"the count of `{function.name}` cannot be written at its call")
    return text.replace("\0", "")


def _value(
    layout: Layout, function: ir.Function, name: str, environment: dict[str, ir.Expression | str], local: set[str]
) -> str:
    if name in local:
        value: ir.Expression | str = _local_value(layout, function, name)
    elif name in environment:
        value = environment[name]
        if not isinstance(value, str) and any(isinstance(n, (ir.Call, ir.Walrus)) for n in walk(value)):
            raise Unplannable(f"`{name}` of `{function.name}` is computed by a call")
        return _marked(value if isinstance(value, str) else _wrapped(layout, value))
    else:
        raise Unplannable(f"`{name}` of `{function.name}` is not passed plainly")
    if isinstance(value, str):
        return value
    if any(isinstance(n, ir.Call) and not _shapes(n) for n in walk(value)):
        raise Unplannable(f"`{name}` in `{function.name}` is computed by a call")
    from accumlint.repair.counts import shape_free

    core = shape_free(value)
    return _wrapped(layout, core)


def _local_value(layout: Layout, function: ir.Function, name: str) -> ir.Expression | str:
    found: list[ir.Expression | str] = []
    for node in walk(function.body):
        if not isinstance(node, ir.Assign):
            if isinstance(node, (ir.Augment, ir.For)) and any(
                isinstance(n, ir.Name) and n.id == name for n in walk(node.target)
            ):
                raise Unplannable(f"`{name}` gets several values in `{function.name}`")
            continue
        for target in node.targets:
            if isinstance(target, ir.Name) and target.id == name:
                found.append(node.value)
            elif isinstance(target, ir.Display):
                for index, element in enumerate(target.elements):
                    if isinstance(element, ir.Name) and element.id == name:
                        if any(isinstance(n, (ir.Call, ir.Starred)) for n in walk(node)):
                            raise Unplannable(f"`{name}` in `{function.name}` is computed by a call")
                        found.append(f"{_wrapped(layout, node.value)}[{index}]")
    if len(found) != 1 or any(p.name == name for p in function.parameters):
        raise Unplannable(f"`{name}` gets several values in `{function.name}`")
    return found[0]


def _wrapped(layout: Layout, value: ir.Expression) -> str:
    text = layout.flat(value)
    plain = isinstance(value, (ir.Name, ir.Attribute, ir.Subscript, ir.Call, ir.Constant))
    return text if plain else f"({text})"


def _marked(text: str) -> str:
    """Names of the caller, protected against being taken for the helper's own."""
    import re

    return re.sub(r"([A-Za-z_])", "\0\\1", text)
