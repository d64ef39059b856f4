"""Which loss contract a callable has: one of the configuration first, then that of its transformers head."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from accumlint.apis.heads import find_head
from accumlint.apis.language import Count
from accumlint.reading.contracts import Counted, LossContract, make_contract

LIBRARY = "transformers."
MAKERS = (".from_pretrained", ".from_config", "._from_config")
COUNT_OF = {
    Counted.CONSTANT: Count.DECLARED,
    Counted.ROWS: Count.ROWS,
    Counted.ELEMENTS: Count.ELEMENTS,
    Counted.TARGETS: Count.VALID_TARGETS,
    Counted.WEIGHTS: Count.WEIGHT_SUM,
}


def find_contract(names: Iterable[str], declared: Iterable[LossContract] = ()) -> LossContract | None:
    """The contract of a callable that has these names: its dotted name in its library, and how the file calls it."""
    given = [name for name in names if name]
    for contract in declared:
        if any(contract.matches(name) for name in given):
            return contract
    heads = (head_contract(name) for name in given if name.startswith(LIBRARY))
    return next((found for found in heads if found is not None), None)


def made_class(name: str) -> str:
    """The class that a constructor call makes an instance of: `x.Model.from_pretrained` makes an `x.Model`."""
    for maker in MAKERS:
        if name.endswith(maker):
            return name.removesuffix(maker)
    return name


@cache
def head_contract(name: str) -> LossContract | None:
    """The shipped contract of a transformers class by its dotted name, if a count of the labels is its normaliser."""
    head = find_head(name) if name.startswith(LIBRARY) else None
    if head is None or head.unsure or head.count is None or not head.separable:
        return None
    count = head.count.replace("{labels}", head.labels)
    return make_contract(name, count, assumes=head.assumes, source=head.source, shipped=True)


__all__ = ["COUNT_OF", "find_contract", "head_contract", "made_class"]
