"""How often each rule was broken."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from accumlint.report.model import Run
from accumlint.report.styled import Line, Piece, line


def lines(run: Run) -> Iterator[Line]:
    """`12  ACC101  equal-target-weight`, the most frequent first."""
    counted = _counted(run)
    width = max((len(str(number)) for _, number in counted), default=0)
    for (code, name), number in counted:
        yield line(f"{number:{width}}  ", Piece(code, "code"), f"  {name}")


def as_json(run: Run) -> str:
    shown = [{"code": code, "name": name, "count": number} for (code, name), number in _counted(run)]
    return json.dumps(shown, indent=2) + "\n"


def _counted(run: Run) -> list[tuple[tuple[str, str], int]]:
    counted = Counter((finding.code, finding.name) for _, finding in run.findings())
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))
