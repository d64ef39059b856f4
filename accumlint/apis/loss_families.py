"""From a loss family (module class and functional form) to its rows. The families themselves are in `losses.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from accumlint.apis.language import (
    Arg,
    Attr,
    Condition,
    Const,
    Count,
    Effect,
    EmptyGradient,
    Is,
    Loss,
    Make,
    Operand,
    Role,
    Row,
)
from accumlint.apis.signature import parse_signature


@dataclass(frozen=True, slots=True)
class Normaliser:
    """What the mean divides by; `weighted` the same when `weight=` is given, `empty` what a zero count leaves."""

    count: Count
    empty: EmptyGradient = EmptyGradient.ZERO
    weighted: Count | None = None
    weighted_empty: EmptyGradient = EmptyGradient.ZERO


@dataclass(frozen=True, slots=True)
class Family:
    """One loss of torch in both spellings; an empty name means that there is no such spelling.

    `inputs` and `targets` name parameters of both `forward` and the functional. `module` and `functional` hold what
    the mean divides by: they differ where only the functional takes a weight.
    """

    name: str
    constructor: str
    forward: str
    functional_name: str
    functional_parameters: str
    inputs: str
    targets: str
    module: Normaliser
    functional: Normaliser
    sum_form: str
    source: str
    assumes: tuple[str, ...] = ()


def family_rows(family: Family) -> tuple[Row, ...]:
    """Constructor, call and functional of a family."""
    rows: list[Row] = []
    if family.name:
        kept = [name for name in ("weight", "ignore_index") if name in parse_signature(family.constructor).names]
        attributes = tuple((name, Arg(name)) for name in kept)
        makes = [
            Make(Role.LOSS_FUNCTION, attributes=(("reduction", reduction), *attributes), when=when)
            for reduction, when in _reductions(family.constructor)
        ]
        rows.append(Row(family.name, family.constructor, family.source, tuple(makes)))
        has = dict.fromkeys(kept)
        losses = _losses(
            family,
            family.module,
            ((Attr("reduction"), ()),),
            Attr("weight") if "weight" in has else None,
            Attr("ignore_index") if "ignore_index" in has else None,
        )
        call = Row(f"{family.name}.__call__", family.forward, family.source, losses, assumes=family.assumes)
        rows.append(replace(call, aliases=(f"{family.name}.forward",)))
    if family.functional_name:
        names = parse_signature(family.functional_parameters).names
        losses = _losses(
            family,
            family.functional,
            _reductions(family.functional_parameters),
            Arg("weight") if "weight" in names else None,
            Arg("ignore_index") if "ignore_index" in names else None,
        )
        rows.append(
            Row(family.functional_name, family.functional_parameters, family.source, losses, assumes=family.assumes)
        )
    return tuple(rows)


def _reductions(parameters: str) -> tuple[tuple[Operand, tuple[Condition, ...]], ...]:
    """The reduction by the parameters: `size_average` and `reduce`, if either is given, override `reduction`."""
    names = parse_signature(parameters).names
    if "reduction" not in names:
        return ((Const("mean"), ()),)
    if "size_average" not in names:
        return ((Arg("reduction"), ()),)
    average, reduce = Arg("size_average"), Arg("reduce")
    reduces = Is(reduce, False, negated=True, unknown=True)
    return (
        (Arg("reduction"), (Is(average, None, unknown=True), Is(reduce, None, unknown=True))),
        (Const("none"), (Is(reduce, False),)),
        (Const("sum"), (Is(average, False), reduces)),
        (Const("mean"), (Is(average, True), reduces)),
        (Const("mean"), (Is(average, None), Is(reduce, True))),
    )


def _losses(
    family: Family,
    normaliser: Normaliser,
    reductions: tuple[tuple[Operand, tuple[Condition, ...]], ...],
    weight: Operand | None,
    ignore: Operand | None,
) -> tuple[Effect, ...]:
    losses: list[Effect] = []
    for reduction, when in reductions:
        plain = Loss(
            reduction,
            targets=Arg(family.targets),
            count=normaliser.count,
            empty=normaliser.empty,
            ignore=ignore,
            inputs=Arg(family.inputs),
            sum_form=family.sum_form,
            when=when,
        )
        if normaliser.weighted is None or weight is None:
            cases = [plain]
        else:
            unweighted = Is(weight, None)
            weighted = Is(weight, None, negated=True, unknown=True)
            cases = [
                replace(plain, when=(*when, unweighted)),
                replace(
                    plain,
                    count=normaliser.weighted,
                    empty=normaliser.weighted_empty,
                    weights=weight,
                    when=(*when, weighted),
                ),
            ]
        losses += [part for case in cases for part in _batchmean(family, case)]
    return tuple(losses)


def _batchmean(family: Family, case: Loss) -> tuple[Loss, ...]:
    """`batchmean`, which only the Kullback-Leibler divergence has, divides by the rows."""
    if not family.functional_name.endswith(".kl_div") or isinstance(case.reduction, Const):
        return (case,)
    by_rows, otherwise = Is(case.reduction, "batchmean"), Is(case.reduction, "batchmean", negated=True, unknown=True)
    return replace(case, count=Count.ROWS, when=(*case.when, by_rows)), replace(case, when=(*case.when, otherwise))
