"""accumlint finds and repairs wrong gradient accumulation in PyTorch training code, and proves each repair.

The library's names are loaded on first use, so that `import accumlint` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accumlint.api import Applicability as Applicability
    from accumlint.api import Certificate as Certificate
    from accumlint.api import Check as Check
    from accumlint.api import CheckResult as CheckResult
    from accumlint.api import Edit as Edit
    from accumlint.api import Finding as Finding
    from accumlint.api import Fix as Fix
    from accumlint.api import Loop as Loop
    from accumlint.api import LoopStatus as LoopStatus
    from accumlint.api import Problem as Problem
    from accumlint.api import RepairResult as RepairResult
    from accumlint.api import Span as Span
    from accumlint.api import check_paths as check_paths
    from accumlint.api import check_source as check_source
    from accumlint.api import repair_source as repair_source

__version__ = "0.1.0"

__all__ = [
    "Applicability",
    "Certificate",
    "Check",
    "CheckResult",
    "Edit",
    "Finding",
    "Fix",
    "Loop",
    "LoopStatus",
    "Problem",
    "RepairResult",
    "Span",
    "check_paths",
    "check_source",
    "repair_source",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from accumlint import api

    value: object = getattr(api, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
