"""Repairs of classes that ignore `num_items_in_batch`: a Trainer's `compute_loss`, a model head's `forward`.

Where the loss is one plain cross-entropy, its sum is divided by the count that the Trainer hands over, and its mean is
kept for evaluation, where there is none. Everything else is a suggestion at most, which is never applied.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from accumlint.contract.verdict import Clause, Violation
from accumlint.findings import Fix
from accumlint.reading.program import Module
from accumlint.reading.read import ReadError, read_module
from accumlint.repair.certificate import Certificate
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Draft, Layout, Unplannable, apply_edits
from accumlint.repair.scope import Scope

COUNT = "num_items_in_batch"
FUNCTIONS = frozenset({"torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss"})
MODULES = frozenset({"torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss"})
MESSAGES = {
    Clause.IGNORED_ITEM_COUNT: "Divide the summed loss by num_items_in_batch",
    Clause.SWALLOWED_ITEM_COUNT: "Divide the summed loss by the num_items_in_batch of the keywords",
}
SWITCH = "Let the Trainer divide: accepts_loss_kwargs = False"
RELEASE = "num_items_in_batch counts what this loss divides by: shifted labels or not, as the Trainer's release decides"
NOT_RUN = "not proved: the Trainer's loop is in its library, and what it counts depends on its release"
EQUAL = "only where all microbatches count the same does the Trainer's own division give the full-batch mean"


@dataclass(frozen=True, slots=True)
class _Place:
    """A function of the text with what is needed to edit it."""

    draft: Draft
    layout: Layout
    function: ast.FunctionDef
    scope: Scope

    def offset(self, line: int, column: int) -> int:
        """The offset of a position as `ast` gives it: the column in bytes."""
        start = self.layout.offset(line, 0)
        return start + len(self.layout.text[start:].split("\n", 1)[0].encode()[:column].decode())


def repair_class(module: Module, layout: Layout, violation: Violation) -> Fix | str:
    """The repair of a class that ignores the count of items, or why there is none."""
    try:
        tree = ast.parse(layout.text)
        line = module.syntax.span(violation.node).line
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.lineno == line]
        if len(functions) != 1:
            raise Unplannable("the function is out of reach of the rewriter")
        function = functions[0]
        place = _Place(Draft(layout), layout, function, Scope.at(tree, function.body[0].lineno))
        if violation.clause is Clause.IGNORED_ITEM_COUNT:
            return _checked(module, place, violation, *_divided_in_trainer(place))
        try:
            return _checked(module, place, violation, *_divided_in_head(place))
        except Unplannable:
            return _checked(module, place, violation, *_switched(place))
    except (Unplannable, SyntaxError, RecursionError, UnicodeDecodeError) as problem:
        return str(problem) if isinstance(problem, Unplannable) else "the class is out of reach of the rewriter"


def _divided_in_trainer(place: _Place) -> tuple[Draft, str, Certificate]:
    assignment, name, call = _only_loss(place)
    _take_parameter(place)
    _reduce(place, call, COUNT)
    _insert_after(
        place, assignment,
        f"if {COUNT} is not None:",
        f"    {name} = {name} / {COUNT}",
        "    if self.args.average_tokens_across_devices:",
        f"        {name} = {name} * self.accelerator.num_processes",
    )  # fmt: skip
    return place.draft, MESSAGES[Clause.IGNORED_ITEM_COUNT], Certificate(assumptions=(RELEASE,), missing=(NOT_RUN,))


def _divided_in_head(place: _Place) -> tuple[Draft, str, Certificate]:
    keywords = place.function.args.kwarg
    if keywords is None:
        raise Unplannable("the count does not reach this function")
    assignment, name, call = _only_loss(place)
    count = Names(place.layout.text).free("num_items")
    _insert_before(place, _first_use(place, assignment, call), f'{count} = {keywords.arg}.get("{COUNT}")')
    _reduce(place, call, count)
    _insert_after(place, assignment, f"if {count} is not None:", f"    {name} = {name} / {count}")
    return place.draft, MESSAGES[Clause.SWALLOWED_ITEM_COUNT], Certificate(assumptions=(RELEASE,), missing=(NOT_RUN,))


def _first_use(place: _Place, assignment: ast.Assign, call: ast.Call) -> ast.stmt:
    """The statement that makes the loss, or, before it, the one that makes its criterion."""
    if any(node is call for node in ast.walk(assignment)):
        return assignment
    for node in ast.walk(place.function):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is call:
            return node
    raise Unplannable("where its criterion is made is not plain")


def _switched(place: _Place) -> tuple[Draft, str, Certificate]:
    """The class attribute that leaves the division to the Trainer; only shown, as counts may differ."""
    owner = place.scope.owner
    if owner is None:
        raise Unplannable("the function stands in no class")
    draft = Draft(place.layout)
    first = owner.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    after = _Place(draft, place.layout, place.function, place.scope)
    if documented and len(owner.body) > 1:
        _insert_before(after, owner.body[1], "accepts_loss_kwargs = False", "")
    else:
        _insert_before(after, first, "accepts_loss_kwargs = False", "")
    return draft, SWITCH, Certificate(missing=(NOT_RUN,), suggestion=EQUAL)


# ------------------------------------------------------------------------------------------------------ the loss


def _only_loss(place: _Place) -> tuple[ast.Assign, str, ast.Call]:
    """The only loss of the function: `name = <cross-entropy>`, and the call that holds its reduction."""
    found = [node for node in ast.walk(place.function) if isinstance(node, ast.Call) and _reducing(place, node)]
    if len(found) != 1:
        raise Unplannable("its loss is not one plain cross-entropy: divide its sum by num_items_in_batch by hand")
    call = _reducing(place, found[0])
    assert call is not None
    for node in ast.walk(place.function):
        if isinstance(node, ast.Assign) and node.value is found[0] and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                return node, target.id, call
    raise Unplannable("its loss is part of a larger expression: divide its sum by num_items_in_batch by hand")


def _reducing(place: _Place, call: ast.Call) -> ast.Call | None:
    """The call that takes the reduction of a cross-entropy: the function's own, or that of the criterion it is."""
    canonical = place.scope.canonical(call.func)
    made: ast.expr | None = call if canonical in FUNCTIONS else None
    limit = 2  # a third argument, or the first of the module, is the class weights: their sum is another divisor
    if made is None:
        limit = 0
        made = call.func
        if isinstance(made, ast.Name):
            name = made.id
            uses = sum(isinstance(n, ast.Name) and n.id == name for n in ast.walk(place.function))
            made = place.scope.value_of(name, call.lineno) if uses == 2 else None
        if not isinstance(made, ast.Call) or place.scope.canonical(made.func) not in MODULES:
            return None
    assert isinstance(made, ast.Call)
    plain = not any(isinstance(argument, ast.Starred) for argument in made.args) and len(made.args) <= limit
    weighted = any(k.arg == "weight" and not _is_none(k.value) for k in made.keywords)
    named = {keyword.arg for keyword in made.keywords}
    if weighted or not plain or named & {None, "reduction", "size_average", "reduce"}:
        return None
    return made


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _reduce(place: _Place, call: ast.Call, count: str) -> None:
    """Make a mean without a count of items, and a sum with one."""
    assert call.end_lineno is not None
    assert call.end_col_offset is not None
    end = place.offset(call.end_lineno, call.end_col_offset)
    start = place.offset(call.lineno, call.col_offset)
    inner = place.layout.text[start : end - 1].rstrip()
    if "#" in inner.rsplit("\n", 1)[-1]:
        raise Unplannable("a comment stands behind the last argument of the loss")
    comma = "" if inner.endswith("(") else " " if inner.endswith(",") else ", "
    text = f'reduction="mean" if {count} is None else "sum"'
    at = start + len(inner)
    place.draft.put(at, at, f"{comma}{text}")


def _take_parameter(place: _Place) -> None:
    arguments = place.function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    if COUNT in names:
        return
    if arguments.vararg is not None or arguments.kwonlyargs:
        raise Unplannable("its signature has no plain place for num_items_in_batch")
    last: ast.expr | ast.arg = arguments.defaults[-1] if arguments.defaults else arguments.args[-1]
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    at = place.offset(last.end_lineno, last.end_col_offset)
    if place.layout.text[at : at + 1] not in (",", ")", "\n"):
        raise Unplannable("its signature is written in an unusual way")
    place.draft.put(at, at, f", {COUNT}=None")


# ------------------------------------------------------------------------------------------------------ the lines


def _insert_before(place: _Place, statement: ast.stmt, *lines: str) -> None:
    first = statement.lineno
    for decorator in getattr(statement, "decorator_list", ()):
        first = min(first, decorator.lineno)
    at = place.layout.offset(first, 0)
    place.draft.put(at, at, _block(place, statement, lines))


def _insert_after(place: _Place, statement: ast.stmt, *lines: str) -> None:
    assert statement.end_lineno is not None
    at = _line_end(place.layout.text, place.layout.offset(statement.end_lineno, 0))
    place.draft.put(at, at, _block(place, statement, lines))


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    if end < 0:
        raise Unplannable("the last line of the file has no end")
    return end + 1


def _block(place: _Place, statement: ast.stmt, lines: tuple[str, ...]) -> str:
    start = place.layout.offset(statement.lineno, 0)
    before = place.layout.text[start : start + statement.col_offset]
    if before.strip():
        raise Unplannable("several statements share a line")
    unit = "\t" if "\t" in before else "    "
    newline = place.layout.newline
    shifted = (line.replace("    ", unit) for line in lines)
    return "".join(f"{before}{line}{newline}" if line else newline for line in shifted)


# ------------------------------------------------------------------------------------------------------- assurance


def _checked(
    module: Module, place: _Place, violation: Violation, draft: Draft, message: str, certificate: Certificate
) -> Fix:
    """The repair, if the repaired class is no longer reported, keeps its comments and raises nothing new."""
    from accumlint.contract.class_rules import judge_classes

    edits = draft.edits()
    text = apply_edits(place.layout.text, edits)
    try:
        after = judge_classes(read_module(text, module.filename, contracts=module.contracts))
    except ReadError as error:
        raise Unplannable(f"the repair that was tried does not parse: {error.message}") from None
    before = judge_classes(module)
    if len(after) >= len(before) or sum(v.clause is violation.clause for v in after) >= sum(
        v.clause is violation.clause for v in before
    ):
        raise Unplannable("the repair that was tried does not hold: the class is still reported")
    if list(_comments(text)) != list(_comments(place.layout.text)):
        raise Unplannable("the repair that was tried would lose a comment")
    return Fix(message, edits, certificate)


def _comments(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
        if token.type == tokenize.COMMENT:
            yield token.string.rstrip()


__all__ = ["repair_class"]
