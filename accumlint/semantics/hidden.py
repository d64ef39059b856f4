"""Losses that are computed out of sight, where a contract declares what they divide by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from accumlint.apis.contracts import find_contract
from accumlint.reading import ir
from accumlint.reading.contracts import LossContract
from accumlint.semantics.functions import Arguments, Functions
from accumlint.semantics.values import Canonical, ClassValue, FunctionValue, Hidden, Object, Opaque, Value

_COUNTED_INSIDE = frozenset({"num_items_in_batch", "shift_labels"})
"""Arguments of transformers' heads that change what they divide by."""
_GATHERS = frozenset({"torch.nn.DataParallel"})
"""Wrappers whose result is no longer one loss: one a device."""


class HiddenLosses(Functions):
    """Marks what a call with a loss contract returns, so that its loss is a site of known reduction and count."""

    def names_of_callee(self, callee: Value) -> Iterator[str]:
        """How a callable may be named in a contract: its library's name, its class, what the file calls it."""
        if isinstance(callee, Object):
            yield self.model_classes.get(callee.path, "")
            yield callee.canonical
            yield callee.instance.definition.name if callee.instance is not None else ""
            yield callee.path
        elif isinstance(callee, Canonical):
            yield callee.name
        elif isinstance(callee, FunctionValue):
            owner = callee.owner.definition.name if callee.owner is not None else ""
            yield f"{owner}.{callee.name}" if owner else callee.name
        elif isinstance(callee, ClassValue):
            yield callee.definition.name
        elif isinstance(callee, Opaque):
            yield callee.path

    def contract_of(self, callee: Value, arguments: Arguments, *, own: bool = False) -> LossContract | None:
        """The contract of a callable, if it holds for these arguments; `own`: only one of the configuration."""
        declared = self.program.module.contracts
        if (own and not declared) or (isinstance(callee, Object) and callee.canonical in _GATHERS):
            return None
        contract = find_contract(self.names_of_callee(callee), declared)
        if contract is None or (own and contract.shipped):
            return None
        if contract.shipped and _COUNTED_INSIDE & arguments.keywords.keys():
            return None
        return contract

    def contract_of_method(self, receiver: Value, name: str, arguments: Arguments) -> LossContract | None:
        """The contract that the configuration has for a method of something that is not of the file."""
        if not self.program.module.contracts:
            return None
        owners = [owner for owner in self.names_of_callee(receiver) if owner] or [""]
        return next(
            (c for o in owners if (c := self.contract_of(Canonical(f"{o}.{name}"), arguments, own=True)) is not None),
            None,
        )

    def declared_result(self, result: Value, contract: LossContract, node: ir.NodeId) -> Value:
        """The result of a call, marked with the contract of what was called."""
        if not isinstance(result, Opaque):
            return result
        return replace(result, hidden=Hidden(contract, node), gradient=not self.no_grad)
