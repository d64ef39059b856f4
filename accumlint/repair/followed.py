"""The leaf of a loss helper that is not one plain return: it has branches and loops, or stands in another file.

Nothing in the helper is changed: the mean that it returns is multiplied by its count at the call. The count is read off
what the helper divides by, and it is a candidate; the leaf check runs the helper itself on drawn data.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from accumlint.apis.language import Count
from accumlint.reading import ir
from accumlint.repair.counts import Leaf
from accumlint.repair.functions import Called, find_called
from accumlint.repair.modulo_shape import SHAPING, Reader, unguarded
from accumlint.repair.rewrite import Layout, Unplannable
from accumlint.semantics.values import Site

FUNCTIONAL = "torch.nn.functional."
INDEXED = frozenset({"cross_entropy", "nll_loss"})
ELEMENTWISE = frozenset(
    {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"}
)  # fmt: skip
IGNORED = ast.UnaryOp(ast.USub(), ast.Constant(100))
Found = tuple[ast.expr, Count, bool]  # the count in the names of the parameters, what it counts, finite where it is 0


def lift_followed(layout: Layout, site: Site, call: ir.Call, divisions: frozenset[int]) -> Leaf:
    """The leaf of a helper's call, whose value is the loss; `divisions` by the number of steps are not on its way."""
    if not site.separable:
        raise Unplannable("the loss couples the examples of a batch: no weighting makes it right")
    if site.reduction not in ("mean", "sum") or site.hidden is not None:
        raise Unplannable(f"what `{layout.flat(call)}` divides by is out of sight")
    if divisions:
        raise Unplannable("the helper of the loss divides by the number of steps as well")
    try:
        node = ast.parse(layout.flat(call), mode="eval").body
        tree = ast.parse(layout.text)
    except SyntaxError:
        raise Unplannable("the call of the loss cannot be read by itself") from None
    called = find_called(tree, layout.module.filename, node) if isinstance(node, ast.Call) else None
    if called is None or not isinstance(node, ast.Call):
        raise Unplannable(f"`{ast.unparse(node)[:60]}` calls no plain function of the project")
    name = called.function.name
    passed = called.bound(node)
    if passed is None:
        raise Unplannable(f"what `{name}` is given is not plain")
    found = list(_counts(called, Reader.of(called, passed)))
    texts = {_text(count, passed, name): kind for count, kind, _ in found}
    if len(texts) != 1:
        raise Unplannable(f"what `{name}` divides by is not plain" if not texts else f"`{name}` has several counts")
    ((text, kind),) = texts.items()
    if "'" in text and '"' not in text and layout.text.count('"') >= layout.text.count("'"):
        text = text.replace("'", '"')
    written = layout.source(call.node)
    exact = kind is not Count.WEIGHT_SUM
    return Leaf(
        replace(site, node=call.node), call, written, "", f"int({text})" if kind is Count.VALID_TARGETS else text, kind,
        exact=exact, finite=all(finite for _, _, finite in found),
    )  # fmt: skip


def _counts(called: Called, reader: Reader) -> Iterator[Found]:
    """What each mean in a helper divides by: the means of library losses, and sums divided by sums."""
    for node in ast.walk(called.function):
        if isinstance(node, ast.Call):
            canonical = reader.scope.canonical(node.func)
            if canonical.startswith(FUNCTIONAL) and (found := _of_loss(node, canonical, reader)) is not None:
                yield found
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            core, guarded = unguarded(node.right, reader.scope)
            outer = core
            for _ in range(4):
                given = _only_value(called, core) if isinstance(core, ast.Name) else None
                if given is None:
                    break
                core, once = unguarded(given, reader.scope)
                guarded = guarded or once
            count = reader.read(core)
            if isinstance(count, ast.Call):
                whole = isinstance(count.func, ast.Attribute) and isinstance(count.func.value, ast.Compare)
                yield count, Count.VALID_TARGETS if whole else Count.WEIGHT_SUM, guarded
            elif not isinstance(outer, ast.Constant):
                raise Unplannable(f"what `{called.function.name}` divides by is not plain")


def _of_loss(node: ast.Call, canonical: str, reader: Reader) -> Found | None:
    """The count of a mean of a library's loss; None for one that is not reduced, or summed and divided later."""
    name = canonical.removeprefix(FUNCTIONAL)
    given = {each.arg: each.value for each in node.keywords}
    reduction = given.get("reduction")
    if isinstance(reduction, ast.Constant) and reduction.value in ("none", "sum"):
        return None
    helper = reader.called.function.name
    if name not in INDEXED | ELEMENTWISE:
        if name.endswith(("loss", "kl_div", "cross_entropy")):
            raise Unplannable(f"what `{name}` in `{helper}` divides by is not read")
        return None
    plain = reduction is None or (isinstance(reduction, ast.Constant) and reduction.value == "mean")
    if not plain or len(node.args) > 2 or given.keys() & {None, "weight", "size_average", "reduce"}:
        raise Unplannable(f"the options of `{name}` in `{helper}` are not plain")
    target = given.get("target") or (node.args[1] if len(node.args) == 2 else None)
    targets = reader.read(target) if target is not None else None
    ignored = reader.read(given.get("ignore_index", IGNORED))
    if targets is None or ignored is None:
        raise Unplannable(f"the targets of `{name}` in `{helper}` are not plain")
    if name in ELEMENTWISE:
        return ast.Call(ast.Attribute(targets, "numel", ast.Load()), [], []), Count.ELEMENTS, True
    valid = ast.Compare(targets, [ast.NotEq()], [ignored])
    return ast.Call(ast.Attribute(valid, "sum", ast.Load()), [], []), Count.VALID_TARGETS, True


def _only_value(called: Called, name: ast.Name) -> ast.expr | None:
    """The value of a name that is given one, or the same in each branch."""
    values = [
        node.value for node in ast.walk(called.function)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name.id for t in node.targets)
    ]  # fmt: skip
    return values[0] if values and len({ast.dump(value) for value in values}) == 1 else None


def _text(count: ast.expr, passed: dict[str, ast.expr], name: str) -> str:
    """A count in the names of the caller."""
    return ast.unparse(_Passed(passed, name).visit(ast.parse(ast.unparse(count), mode="eval").body))


class _Passed(ast.NodeTransformer):
    """Puts what a call passes in the place of the parameters."""

    def __init__(self, passed: dict[str, ast.expr], name: str) -> None:
        self.passed, self.name = passed, name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.passed.get(node.id)
        if value is None:
            raise Unplannable(f"`{node.id}` in `{self.name}` is not passed plainly")
        for each in ast.walk(value):
            shapes = isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in SHAPING
            if isinstance(each, (ast.NamedExpr, ast.Await, ast.Lambda)) or (isinstance(each, ast.Call) and not shapes):
                raise Unplannable(f"`{node.id}` of `{self.name}` is computed by a call")
        return value


__all__ = ["lift_followed"]
