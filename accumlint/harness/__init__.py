"""Everything that runs torch: the full-batch reference, `accumcheck`, slices in a subprocess, the leaf check, ranks.

The names are loaded on first use, so that `import accumlint.harness` costs nothing and works without torch; only
using a name that needs torch then fails, and says how to get it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accumlint.harness.assertion import assert_equivalent as assert_equivalent
    from accumlint.harness.check import accumcheck as accumcheck
    from accumlint.harness.errors import HarnessError as HarnessError
    from accumlint.harness.factory import verify as verify
    from accumlint.harness.factory import verify_repair as verify_repair
    from accumlint.harness.frameworks import deepspeed_loop as deepspeed_loop
    from accumlint.harness.frameworks import lightning_loop as lightning_loop
    from accumlint.harness.frameworks import trainer_loop as trainer_loop
    from accumlint.harness.leaf import check_pair as check_pair
    from accumlint.harness.monitor import watch as watch
    from accumlint.harness.reference import full_batch_gradient as full_batch_gradient
    from accumlint.harness.reference import reference_update as reference_update
    from accumlint.harness.reference import weighted_mean as weighted_mean
    from accumlint.harness.report import Fault as Fault
    from accumlint.harness.report import FaultKind as FaultKind
    from accumlint.harness.report import Report as Report
    from accumlint.harness.runner import Runner as Runner
    from accumlint.harness.tolerances import relative_error as relative_error

_HOME = {
    "Fault": "report",
    "FaultKind": "report",
    "HarnessError": "errors",
    "Report": "report",
    "Runner": "runner",
    "accumcheck": "check",
    "assert_equivalent": "assertion",
    "check_pair": "leaf",
    "deepspeed_loop": "frameworks",
    "full_batch_gradient": "reference",
    "lightning_loop": "frameworks",
    "reference_update": "reference",
    "relative_error": "tolerances",
    "trainer_loop": "frameworks",
    "verify": "factory",
    "verify_repair": "factory",
    "watch": "monitor",
    "weighted_mean": "reference",
}
__all__ = sorted(_HOME)

MISSING_TORCH = "accumlint's harness needs PyTorch, which is not installed: pip install 'accumlint[torch]'"


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ImportError(MISSING_TORCH, name="torch") from error
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
