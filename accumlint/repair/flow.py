"""The way of a loss through the source, from its birth to its backward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from accumlint.reading import ir
from accumlint.reading.prefilter import BACKWARDS
from accumlint.reading.walk import walk
from accumlint.repair.boundary import RETURNED, Window
from accumlint.repair.rewrite import Layout, Unplannable
from accumlint.semantics.trace import Event
from accumlint.semantics.values import Form, Site


class InBranch(Unplannable):
    """A statement that gives the loss its value is no plain assignment: a branch, or one of several targets."""


@dataclass(slots=True)
class Flow:
    """The way of a loss from its birth to its backward, in the backward's function.

    `root` is the expression of the birth (the loss call, or the call of the helper that holds it), `first` the
    statement that it is in, `links` the later statements that only divide or rename it, `divided` the divisions by
    the number of steps, `names` what it is called on the way, `factored` that other factors are on the way. `born` is
    the statement that unpacks it from a result: `root` is then a use of its name.
    """

    root: ir.Expression
    first: ir.Statement
    core: ir.Expression  # what of the first statement's expression remains without the divisions at its outside
    argument: ir.Expression  # what is propagated
    links: list[ir.Statement] = field(default_factory=list)
    divided: list[ir.Binary | ir.Augment] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    factored: bool = False
    masked: ir.Binary | None = None
    born: ir.Assign | None = None  # `loss, logits = model(...)`: `root` is then the first use of the name
    maker: ir.Call | None = None  # the helper's call whose result holds the loss: `root` is a part of the result
    part: object = None  # which part: a key of its dict, a place in its tuple


def by_steps(window: Window, form: Form) -> set[int]:
    """The nodes that divide a loss by the number of steps; what a framework divides by is no part of the source."""
    sizes = {float(window.trace.steps)} if window.trace.steps else set()
    found = set()
    for division in form.divisions:
        if "framework" in division.divisor.text:
            continue
        value = next((a for a in division.divisor.at if a is not None), None)
        if value is not None and value > 1 and (not sizes or float(value) in sizes or not division.divisor.is_constant):
            found.add(division.node)
    return found


def trace_flow(window: Window, event: Event, site: Site) -> Flow:
    """Follow the loss from its backward to its birth."""
    layout = window.layout
    assert event.form is not None
    divisions = by_steps(window, event.form)
    argument = propagated(window.backward)
    flow = Flow(argument, window.home, argument, argument)
    at: ir.Statement = window.home
    expression = argument
    for _ in range(12):
        expression = _strip(layout, flow, expression, divisions, site)
        if not isinstance(expression, ir.Name):
            break
        flow.names.append(expression.id)
        before = at
        at, value = _assigned(window, flow, at, expression.id, divisions, site)
        if flow.born is not None:
            at = before
            break
        flow.core = expression = value
        flow.first = at
    flow.root = expression
    if flow.born is None:
        _take_part(window, flow, at)
    return flow


def propagated(call: ir.Call) -> ir.Expression:
    if isinstance(call.function, ir.Name) and call.function.id == RETURNED:
        return _of_result(call.arguments[0].value)
    if isinstance(call.function, ir.Attribute) and call.function.name in BACKWARDS:
        receiver = call.function.value
        if not call.arguments:
            return unscaled(receiver)
        plain = len(call.arguments) == 1 and not call.arguments[0].star and call.arguments[0].keyword is None
        if plain and isinstance(receiver, (ir.Name, ir.Attribute)):
            return unscaled(call.arguments[0].value)
    raise Unplannable("its backward call has arguments")


def _of_result(value: ir.Expression) -> ir.Expression:
    """The loss in what a `training_step` returns: itself, or the item `loss` of a dictionary."""
    if isinstance(value, ir.DictDisplay):
        found = [item for key, item in value.items if isinstance(key, ir.Constant) and key.value == "loss"]
        if len(found) != 1:
            raise Unplannable("its loss is not named in what it returns")
        return found[0]
    return value


def unscaled(expression: ir.Expression) -> ir.Expression:
    if (
        isinstance(expression, ir.Call)
        and isinstance(expression.function, ir.Attribute)
        and expression.function.name == "scale"
        and len(expression.arguments) == 1
    ):
        return expression.arguments[0].value
    return expression


def _strip(layout: Layout, flow: Flow, expression: ir.Expression, divisions: set[int], site: Site) -> ir.Expression:
    """The birth inside an expression of divisions and factors."""
    outside = True
    while expression.node != site.node:
        inner = unscaled(expression)
        if inner is not expression:
            expression = inner
        elif isinstance(expression, ir.Binary) and expression.operator == "/":
            if expression.node in divisions:
                flow.divided.append(expression)
                expression = expression.left
                flow.core = expression if outside else flow.core
                continue
            if _holds(expression.left, site) and not _holds(expression.right, site) and site.reduction == "sum":
                flow.masked = expression
                return expression
            outside, flow.factored, expression = False, True, expression.left
        elif isinstance(expression, ir.Binary) and expression.operator == "*":
            if (quotient := _of_fraction(expression, divisions, site)) is not None:
                flow.divided.append(quotient)
                expression = quotient.left
                flow.core = expression if outside else flow.core
                continue
            outside, flow.factored = False, True
            expression = expression.right if _holds(expression.right, site) else expression.left
        elif isinstance(expression, ir.Name):
            if flow.factored:
                raise Unplannable("the loss is multiplied by a factor on the way")
            return expression
        elif isinstance(expression, ir.Call) and (quotient := _divided(expression, divisions)) is not None:
            flow.divided.append(quotient)
            expression = quotient.left
            flow.core = expression if outside else flow.core
        elif isinstance(expression, ir.Call) or _is_part(expression):
            return expression
        else:
            raise Unplannable("the loss is not a plain expression")
    if site.reduction == "sum":
        raise Unplannable("what divides the summed loss is not plain")
    return expression


def _is_part(expression: ir.Expression) -> bool:
    return isinstance(expression, ir.Subscript) and isinstance(expression.index, ir.Constant)


def _of_fraction(product: ir.Binary, divisions: set[int], site: Site) -> ir.Binary | None:
    """`loss * (1 / K)` and `(1 / K) * loss` as the quotients that they are."""
    if product.node not in divisions:
        return None
    if any(_holds(side, site) for side in (product.left, product.right)):
        loss_first = _holds(product.left, site)
    elif isinstance(product.left, ir.Name) != isinstance(product.right, ir.Name):
        loss_first = isinstance(product.left, ir.Name)
    else:
        raise Unplannable("which side of a product is the loss is not plain")
    sides = (product.left, product.right) if loss_first else (product.right, product.left)
    return ir.Binary(product.node, "/", *sides)


def _divided(call: ir.Call, divisions: set[int]) -> ir.Binary | None:
    """`loss.div(K)` and `loss.mul(1 / K)` as the quotients that they are."""
    function = call.function
    if not isinstance(function, ir.Attribute) or function.name not in ("div", "mul") or call.node not in divisions:
        return None
    plain = len(call.arguments) == 1 and not call.arguments[0].star and call.arguments[0].keyword is None
    return ir.Binary(call.node, "/", function.value, call.arguments[0].value) if plain else None


def _holds(expression: ir.Expression, site: Site) -> bool:
    return any(node.node == site.node for node in walk(expression))


def _assigned(
    window: Window, flow: Flow, at: ir.Statement, name: str, divisions: set[int], site: Site
) -> tuple[ir.Statement, ir.Expression]:
    """The statement before `at` that gives `name` its value; divisions in place on the way are noted."""
    layout = window.layout
    for statement in statements_before(layout, at):
        if isinstance(statement, ir.Augment) and is_name(statement.target, name):
            if statement.node in divisions and statement.operator == "/":
                flow.divided.append(statement)
                flow.links.append(statement)
                continue
            raise Unplannable("something is added to the loss on the way")
        if isinstance(statement, ir.Assign) and len(statement.targets) == 1 and is_name(statement.targets[0], name):
            reads = any(isinstance(n, ir.Name) and n.id in flow.names for n in walk(statement.value))
            if reads or isinstance(_core(statement.value, divisions), ir.Name):
                flow.links.append(statement)
            return statement, statement.value
        if isinstance(statement, ir.Assign) and _unpacks(statement, site):
            flow.born = statement
            return statement, statement.value
        if (place := _place_in(statement, name)) is not None and isinstance(statement, ir.Assign):
            assert isinstance(statement.value, ir.Call)
            flow.born, flow.maker, flow.part = statement, statement.value, place
            return statement, statement.value
        if any(isinstance(n, ir.Name) and n.id == name for s in walk(statement) for n in _targets(s)):
            raise InBranch("the loss gets its value in a branch or together with others")
    raise Unplannable("the loss comes from outside this function")


def _place_in(statement: ir.Statement, name: str) -> int | None:
    """Where `name` stands among what a call returns: 0 in `loss, hits = compute(...)`."""
    if not isinstance(statement, ir.Assign) or len(statement.targets) != 1 or not isinstance(statement.value, ir.Call):
        return None
    target = statement.targets[0]
    if not isinstance(target, ir.Display) or any(isinstance(e, ir.Starred) for e in target.elements):
        return None
    places = [place for place, e in enumerate(target.elements) if is_name(e, name)]
    return places[0] if len(places) == 1 else None


def _take_part(window: Window, flow: Flow, at: ir.Statement) -> bool:
    """Whether the root is `result["loss"]` or `result[0]` of what a helper returned; notes the helper's call."""
    root = flow.root
    if not isinstance(root, ir.Subscript) or not isinstance(root.index, ir.Constant):
        return False
    value: ir.Expression | None = root.value
    if isinstance(value, ir.Name):
        name = value.id
        for statement in statements_before(window.layout, at):
            if not any(name in _bound(each) for each in walk(statement)):
                continue
            plain = isinstance(statement, ir.Assign) and len(statement.targets) == 1
            value = statement.value if plain and isinstance(statement, ir.Assign) else None
            break
    if not isinstance(value, ir.Call):
        return False
    flow.maker, flow.part = value, root.index.value
    return True


def _bound(node: ir.Expression | ir.Statement) -> set[str]:
    targets = node.targets if isinstance(node, ir.Assign) else (node.target,) if isinstance(node, ir.For) else ()
    return {n.id for target in targets for n in walk(target) if isinstance(n, ir.Name)}


def _unpacks(statement: ir.Assign, site: Site) -> bool:
    """Whether a statement takes a loss of a declared contract out of a result, together with others."""
    return site.hidden is not None and any(target.node == site.node for target in statement.targets)


def _core(expression: ir.Expression, divisions: set[int]) -> ir.Expression:
    while isinstance(expression, ir.Binary) and expression.node in divisions:
        expression = expression.left
    return unscaled(expression)


def _targets(node: ir.Expression | ir.Statement) -> list[ir.Expression]:
    if isinstance(node, ir.Assign):
        return [n for t in node.targets for n in walk(t) if isinstance(n, ir.Name)]
    if isinstance(node, ir.Augment):
        return [node.target]
    return []


def is_name(expression: ir.Expression, name: str) -> bool:
    return isinstance(expression, ir.Name) and expression.id == name


def statements_before(layout: Layout, at: ir.Statement) -> Iterator[ir.Statement]:
    """The statements that ran before one, the nearest first, inside the same loop body; a `with` is entered."""
    for statement in (at, *layout.parents(at)):
        if isinstance(statement, ir.Function):
            return
        place = layout.places[statement.node]
        yield from _backwards(place.block[: place.index])
        if isinstance(place.parent, (ir.For, ir.While)):
            return


def _backwards(block: tuple[ir.Statement, ...]) -> Iterator[ir.Statement]:
    for statement in reversed(block):
        if isinstance(statement, ir.With):
            yield from _backwards(statement.body)
        else:
            yield statement


def other_uses(window: Window, flow: Flow) -> list[ir.Name]:
    """Where the loss is used for something else than its backward."""
    own: set[int] = set()
    for statement in (flow.first, *flow.links, *([flow.born] if flow.born is not None else [])):
        own |= {id(n) for n in walk(statement) if isinstance(n, ir.Name)}
    own |= {id(n) for n in walk(flow.argument)}
    function = window.home_function
    scope = window.layout.scope(function)
    return [n for n in walk(scope) if isinstance(n, ir.Name) and n.id in flow.names and id(n) not in own]
