"""The parameters of every torch row are those of torch itself."""

import importlib
import inspect
from typing import Any

import pytest
from torch_row_runs import ROWS

from accumlint.apis.language import Row
from accumlint.apis.signature import Default, parse_signature

torch = pytest.importorskip("torch")


def resolve(call: str) -> Any:
    """The object behind a canonical name, importing modules on the way."""
    parts = call.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AssertionError(call)


LOOSE = {
    "torch.nn.PoissonNLLLoss.__call__": "its forward calls the input log_input",
    "torch.distributed.nn.all_reduce": "the default group is an object",
    "torch.distributed._functional_collectives.all_reduce": "private, and its annotations change",
}
OURS = ("accumlint.", "torch.Tensor.")


def has_signature(row: Row) -> bool:
    plain = not row.call.startswith(OURS) and not row.call.endswith("__set__") and row.call not in LOOSE
    return plain and row.parameters != "*args, **kwargs" and "_C/" not in row.source


def real_signature(call: str) -> inspect.Signature:
    if call.endswith(".__call__"):
        return inspect.signature(resolve(call.removesuffix(".__call__")).forward)
    found = resolve(call)
    if inspect.isclass(found):
        return inspect.signature(found.__init__)
    return inspect.signature(found)


@pytest.mark.parametrize("call", [call for call, row in ROWS.items() if has_signature(row)])
def test_parameters_are_the_real_ones(call: str) -> None:
    real = [p for name, p in real_signature(call).parameters.items() if name != "self" or "collectives" in call]
    if real and [p.kind for p in real] == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        real = []  # object.__init__
    table = parse_signature(ROWS[call].parameters)
    named = [p for p in real if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not real and not table.names:
        return
    assert [p.name for p in table.parameters] == [p.name for p in named]
    for mine, theirs in zip(table.parameters, named, strict=True):
        assert (mine.default is None) == (theirs.default is inspect.Parameter.empty), mine.name
        assert mine.keyword_only == (theirs.kind is theirs.KEYWORD_ONLY), mine.name
        literal = isinstance(theirs.default, str | int | float | bool | tuple | type(None))
        if isinstance(mine.default, Default) and literal:
            assert mine.default.value == theirs.default, mine.name
    if real:
        assert table.rest == next((p.name for p in real if p.kind is p.VAR_POSITIONAL), None)
        assert table.keywords == next((p.name for p in real if p.kind is p.VAR_KEYWORD), None)


def test_loose_signatures_exist() -> None:
    assert set(LOOSE) <= set(ROWS)
