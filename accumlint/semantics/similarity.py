"""Products of two results of the network, and among them the similarities of the rows of a batch with one another.

A loss on a matrix of similarities compares the examples of a microbatch with each other: no weight makes the sum over
microbatches the full batch's loss.
"""

from __future__ import annotations

from collections.abc import Sequence

from accumlint.reading import ir
from accumlint.semantics.values import NO_FACTS, Fact, Facts, Value, carries_gradient, lineage_of

PRODUCT = "product"
SIMILARITY = "similarity"
_PLAIN = frozenset({"@", "matmul", "mm"})
_PRODUCTS = frozenset({"bmm", "einsum", "cdist", "cosine_similarity"})
_PAIRWISE = frozenset({"cos_sim", "pytorch_cos_sim", "dot_score", "cdist", "pairwise_distances"})
"""Functions that compare every row of one argument with every row of the other."""
_NAMES = _PLAIN | _PRODUCTS | _PAIRWISE
_TRANSPOSED = frozenset({"t", "T", "mT", "adjoint"})


def product_facts(
    name: str, operands: Sequence[Value], written: Sequence[ir.Expression | None], node: ir.NodeId
) -> Facts:
    """What a call or an operator (`@`) that may multiply its operands says of the result.

    Similarities need two sides that come from the batch, computed or not: stored embeddings may be one of them.
    """
    if name not in _NAMES:
        return NO_FACTS
    computed = sum(carries_gradient(operand) for operand in operands)
    pairwise = name in _PAIRWISE or (name in _PLAIN and any(map(_is_transposed, written)))
    pairwise |= name == "cosine_similarity" and bool(written) and all(map(_is_spread, written))
    if pairwise and sum(bool(lineage_of(operand)) for operand in operands) > 1:
        return frozenset({Fact(PRODUCT, node), Fact(SIMILARITY, node)})
    return frozenset({Fact(PRODUCT, node)}) if computed > 1 and (name in _PRODUCTS or name in _PLAIN) else frozenset()


def _is_transposed(expression: ir.Expression | None) -> bool:
    """`x.t()` or `x.T`: rows against rows; `x.transpose(-1, -2)` is how attention is written, row by row."""
    called = expression.function if isinstance(expression, ir.Call) and not expression.arguments else expression
    return isinstance(called, ir.Attribute) and called.name in _TRANSPOSED


def _is_spread(expression: ir.Expression | None) -> bool:
    """`x.unsqueeze(0)`: each row is to be compared with all."""
    called = expression.function if isinstance(expression, ir.Call) else None
    return isinstance(called, ir.Attribute) and called.name == "unsqueeze"
