"""`loss-contracts` of the configuration: from a TOML table to checked contracts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from accumlint.cli.errors import UsageError, nearest
from accumlint.reading.contracts import REDUCTIONS, ContractError, LossContract, make_contract

FIELDS = ("count", "reduction", "parameters", "output")


def read_contracts(value: Any, where: str) -> tuple[LossContract, ...]:
    """The contracts of the table `loss-contracts` of the file `where`, in its order.

    Raises UsageError with the file, the line of the contract and what is wrong with it.
    """
    if not isinstance(value, dict):
        raise UsageError(f"{where}: loss-contracts: expected a table: callable pattern -> count, not {value!r}"[:300])
    found = []
    for pattern, given in value.items():
        try:
            found.append(_contract(pattern, given))
        except ContractError as error:
            raise UsageError(f'{_place(where, pattern)}: loss-contracts."{pattern}": {error}') from None
    return tuple(found)


def _contract(pattern: str, given: Any) -> LossContract:
    if isinstance(given, str):
        return make_contract(pattern, given)
    if not isinstance(given, dict):
        raise ContractError(f"expected a count expression or a table with {', '.join(FIELDS)}, not {given!r}"[:200])
    for name in given:
        if name not in FIELDS:
            raise ContractError(f'unknown key "{name}"{nearest(name, FIELDS)}')
    reduction = given.get("reduction", "mean")
    if reduction not in REDUCTIONS:
        raise ContractError(f"reduction: expected one of {', '.join(REDUCTIONS)}, not {reduction!r}"[:200])
    count = given.get("count", "")
    if not isinstance(count, str):
        raise ContractError(f"count: expected an expression as a string, not {count!r}"[:200])
    if not count and reduction == "mean":
        raise ContractError("count is missing: a mean divides by something")
    output = given.get("output")
    if isinstance(output, bool) or not isinstance(output, (str, int, type(None))):
        raise ContractError(f"output: expected the name or the index of the loss in the result, not {output!r}"[:200])
    parameters = given.get("parameters", [])
    if not isinstance(parameters, list) or not all(isinstance(each, str) for each in parameters):
        raise ContractError(f"parameters: expected a list of names, not {parameters!r}"[:200])
    return make_contract(pattern, count, reduction=reduction, parameters=tuple(parameters), output=output)


def _place(where: str, pattern: str) -> str:
    """`FILE:LINE` of a contract, as far as its key is found in the text; the TOML reader keeps no lines."""
    try:
        lines = Path(where).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError):
        return where
    key = re.compile(rf"""["']?{re.escape(pattern)}["']?\s*(=|\])""")
    start = next((number for number, line in enumerate(lines) if "loss-contracts" in line), 0)
    line = next((number for number, line in enumerate(lines) if number >= start and key.search(line)), start)
    return f"{where}:{line + 1}"


__all__ = ["FIELDS", "read_contracts"]
