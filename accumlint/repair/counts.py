"""The loss of a loop as a sum, and the count that its mean divided by, both as source text."""

from __future__ import annotations

from dataclasses import dataclass, field

from accumlint.apis.language import Count, EmptyGradient
from accumlint.apis.loss_families import Family
from accumlint.reading import ir
from accumlint.reading.walk import dotted, walk
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Layout, Unplannable
from accumlint.semantics.values import Site

SHAPING = frozenset(
    (
        "view",
        "reshape",
        "flatten",
        "contiguous",
        "squeeze",
        "unsqueeze",
        "transpose",
        "permute",
        "long",
        "to",
        "cuda",
        "cpu",
        "detach",
        "type",
        "int",
    )
)
FREE_CALLS = frozenset(("size", "dim", "numel"))
REDUCTION_OF_OLD = ("size_average", "reduce")


@dataclass(slots=True)
class Leaf:
    """One loss: `mean_text` as it was, `sum_text` as it becomes, in place of `expression`; the count is a number."""

    site: Site
    expression: ir.Expression
    mean_text: str
    sum_text: str
    count_text: str
    count: Count
    exact: bool = True  # the count is a whole number
    finite: bool = True  # the mean's gradient at count zero is zero
    setup: list[str] = field(default_factory=list)  # lines before it
    elsewhere: list[tuple[int, int, str]] = field(default_factory=list)  # edits at the criterion's constructor
    arguments: dict[str, str] = field(default_factory=dict)
    declared: str = ""
    factored: bool = False  # factors that it had before stay: those of several terms, or of one
    more: list[Leaf] = field(default_factory=list)  # the other terms of its loss, which divide by counts of their own
    counted: list[str] = field(default_factory=list)  # the counts as they were inserted; empty: `count_text`

    def guarded(self, name: str) -> str:
        return f"max({name}, 1)" if self.exact else f"({name} if {name} > 0 else 1)"

    @property
    def zero(self) -> str:
        return "0" if self.exact else "0.0"


def family_of(call: str) -> Family | None:
    from accumlint.apis.losses import FAMILIES

    name = call.removesuffix(".__call__").removesuffix(".forward")
    return next((f for f in FAMILIES if name in (f.name, f.functional_name) and name), None)


def read_leaf(layout: Layout, site: Site, names: Names) -> Leaf:
    """The leaf of a visible torch loss."""
    expression = layout.nodes.get(site.node)
    family = family_of(site.call)
    if not site.separable:
        raise Unplannable("the loss couples the examples of a batch: no weighting makes it right")
    if site.reduction == "unknown":
        shown = layout.module.syntax.text(site.node)
        raise Unplannable(f"what `{shown}` divides by is out of sight")
    if family is None or not isinstance(expression, ir.Call) or site.reduction != "mean":
        raise Unplannable("the loss is no call of a torch loss: what it divides by is not known")
    if in_scope_of_its_own(layout, expression):
        raise Unplannable("the loss is computed inside a lambda or comprehension")
    module = site.call.endswith((".__call__", ".forward"))
    parameters = _parameters(family.forward if module else family.functional_parameters)
    bound = bind(expression, parameters)
    target = bound.get(family.targets)
    if target is None:
        raise Unplannable("the target of the loss is not among its arguments")
    normaliser = family.module if module else family.functional
    count = site.count or normaliser.count
    weighted = count is normaliser.weighted and count is not normaliser.count
    empty = normaliser.weighted_empty if weighted else normaliser.empty
    arguments = {name: layout.flat(value) for name, value in bound.items()}
    text = layout.source(expression.node)
    leaf = Leaf(site, expression, text, text, "", count, finite=empty is EmptyGradient.ZERO, arguments=arguments)
    if any(name in bound for name in REDUCTION_OF_OLD):
        raise Unplannable("the loss uses the old arguments size_average or reduce")
    if family.sum_form != "reduction='sum'":
        if count is not Count.ROWS or "target_lengths" not in bound:
            raise Unplannable(f"the sum of this loss is not reduction='sum' but {family.sum_form}")
        target = bound["target_lengths"]  # one for each row, whichever way the targets are laid out
        leaf.sum_text, leaf.finite = "", True  # its mean is multiplied by the rows, and no batch is without any
    elif module:
        _of_criterion(layout, leaf, expression, family)
    else:
        leaf.sum_text = summed_call(layout, expression, bound.get("reduction"))
    ignored, weights = _options(layout, expression, family, bound, module)
    shown = _target_text(layout, leaf, target, names)
    _count(leaf, shown, ignored, weights)
    return leaf


def in_scope_of_its_own(layout: Layout, expression: ir.Expression) -> bool:
    statement = layout.statement(expression.node)
    return any(
        isinstance(node, (ir.Lambda, ir.Comprehension)) and any(each is expression for each in walk(node))
        for node in walk(statement)
    )


def _parameters(text: str) -> list[str]:
    return [part.split("=")[0].strip() for part in text.split(",")]


def bind(call: ir.Call, parameters: list[str]) -> dict[str, ir.Expression]:
    """Arguments by parameter; refuses stars, which hide what is passed."""
    bound: dict[str, ir.Expression] = {}
    positional = iter(p for p in parameters if not p.startswith("*"))
    for argument in call.arguments:
        if argument.star:
            raise Unplannable("the arguments of the loss are passed with a star")
        name = argument.keyword or next(positional, "")
        bound[name] = argument.value
    return bound


def summed_call(layout: Layout, call: ir.Call, reduction: ir.Expression | None) -> str:
    """The text of a call with reduction="sum"."""
    start, end = layout.range(call.node)
    text = layout.text[start:end]
    quote = "'" if layout.text.count("'") > layout.text.count('"') else '"'
    if reduction is not None:
        if not isinstance(reduction, ir.Constant):
            raise Unplannable("the reduction of the loss is not written as a string")
        first, last = (offset - start for offset in layout.range(reduction.node))
        return f"{text[:first]}{text[first]}sum{text[first]}{text[last:]}"
    if not text.endswith(")"):
        raise Unplannable("the loss call ends in an unusual way")
    inner = text[:-1].rstrip()
    tail = text[len(inner) :]
    if "#" in inner.rsplit("\n", 1)[-1]:
        raise Unplannable("a comment stands behind the last argument of the loss")
    if inner.endswith(","):
        return f"{inner} reduction={quote}sum{quote},{tail}"
    comma = "" if inner.endswith("(") else ", "
    return f"{inner}{comma}reduction={quote}sum{quote}{tail}"


def _of_criterion(layout: Layout, leaf: Leaf, call: ir.Call, family: Family) -> None:
    """A criterion object: its constructor is changed if this call is its only use, else the mean is rescaled."""
    constructor, alone = find_constructor(layout, call, family)
    if constructor is None or not alone:
        leaf.sum_text = ""  # rescale
        return
    bound = bind(constructor, _parameters(family.constructor))
    if any(name in bound for name in REDUCTION_OF_OLD):
        raise Unplannable("the loss uses the old arguments size_average or reduce")
    start, end = layout.range(constructor.node)
    leaf.elsewhere.append((start, end, summed_call(layout, constructor, bound.get("reduction"))))


def find_constructor(layout: Layout, call: ir.Call, family: Family) -> tuple[ir.Call | None, bool]:
    """Where the criterion of a call is made, and whether the call is its only use, in the same function."""
    name = dotted(call.function)
    if name is None:
        return (call.function, True) if isinstance(call.function, ir.Call) else (None, False)
    last = name.rpartition(".")[2]
    made: list[tuple[ir.Assign, ir.Call]] = []
    uses = 0
    others = False
    for node in walk(layout.module.body):
        if isinstance(node, ir.Assign) and any(dotted(target) == name for target in node.targets):
            if isinstance(node.value, ir.Call) and len(node.targets) == 1:
                made.append((node, node.value))
            else:
                others = True
        if isinstance(node, (ir.Name, ir.Attribute)) and dotted(node) == name:
            uses += 1
        if isinstance(node, ir.Attribute) and node.name == last and dotted(node) != name:
            others = True
        if isinstance(node, (ir.Function, ir.Lambda)) and any(p.name == last for p in node.parameters):
            others = True
    if len(made) != 1 or (dotted(made[0][1].function) or "").rpartition(".")[2] != family.name.rpartition(".")[2]:
        return None, False
    assignment, constructor = made[0]
    same = layout.function(assignment) is layout.function(layout.statement(call.node))
    return constructor, not others and uses == 2 and (same or name.startswith("self."))


def _options(
    layout: Layout, call: ir.Call, family: Family, bound: dict[str, ir.Expression], module: bool
) -> tuple[str, str]:
    """The texts of the ignored index and of the class weights, as they can be written beside the loss call."""
    if not module:
        ignored, weights = bound.get("ignore_index"), bound.get("weight")
        for each in (ignored, weights):
            if each is not None and any(isinstance(node, ir.Call) for node in walk(each)):
                raise Unplannable("an option of the loss is computed by a call")
        return ("-100" if ignored is None else layout.flat(ignored)), ("" if weights is None else layout.flat(weights))
    callee = dotted(call.function)
    constructor, _ = find_constructor(layout, call, family)
    if constructor is not None:
        given = bind(constructor, _parameters(family.constructor)).get("ignore_index")
        if given is None:
            return "-100", f"{callee}.weight"
        if callee is None or layout.flat(given).lstrip("-").isdigit():
            return layout.flat(given), f"{callee}.weight"
    if callee is None:
        raise Unplannable("the criterion has no name")
    return f"{callee}.ignore_index", f"{callee}.weight"


def _target_text(layout: Layout, leaf: Leaf, target: ir.Expression, names: Names) -> str:
    """The target beside the loss call; one that is computed by a call is computed once, before it."""
    core = shape_free(target) if leaf.count is not Count.ROWS else target
    if not any(isinstance(node, (ir.Call, ir.Await, ir.Walrus)) for node in walk(core)):
        text = layout.flat(core)
        return text if isinstance(core, (ir.Name, ir.Attribute, ir.Subscript)) else f"({text})"
    if all(is_shaping(node) for node in walk(core) if isinstance(node, ir.Call)):
        return f"{layout.flat(core)}" if isinstance(core, ir.Call) else f"({layout.flat(core)})"
    name = names.free("targets")
    leaf.setup.append(f"{name} = {layout.flat(target)}")
    text = leaf.sum_text or leaf.mean_text
    written = layout.source(target.node)
    if text.count(written) != 1:
        raise Unplannable("the target of the loss is computed by a call that cannot be moved")
    if leaf.sum_text:
        leaf.sum_text = text.replace(written, name)
    else:
        leaf.mean_text = text.replace(written, name)
    return name


def is_shaping(call: ir.Call) -> bool:
    return isinstance(call.function, ir.Attribute) and call.function.name in SHAPING | FREE_CALLS


def shape_free(expression: ir.Expression) -> ir.Expression:
    """The expression without trailing calls that only change its shape, type or place."""
    while (
        isinstance(expression, ir.Call)
        and isinstance(expression.function, ir.Attribute)
        and expression.function.name in SHAPING
    ):
        expression = expression.function.value
    return expression


def _count(leaf: Leaf, target: str, ignored: str, weights: str) -> None:
    if leaf.count is Count.VALID_TARGETS:
        leaf.count_text = f"int(({target} != {ignored}).sum())"
    elif leaf.count is Count.WEIGHTED_TARGETS:
        leaf.count_text = f"float({weights}[{target}[{target} != {ignored}]].sum())"
        leaf.exact = False
    elif leaf.count is Count.ELEMENTS:
        leaf.count_text = f"{target}.numel()"
    elif leaf.count is Count.ROWS:
        per_row = "ranking" not in leaf.site.call.lower()  # that one counts the elements of its target
        leaf.count_text = f"{target}.size(0)" if per_row else f"{target}.numel()"
    elif leaf.count is Count.WEIGHT_SUM and "weight" in leaf.arguments:
        leaf.count_text = f"float({leaf.arguments['weight']}.sum())"
        leaf.exact = False
    else:
        raise Unplannable("what the loss divides by has no plain count")
