"""How far the repair of each shape of loop gets, and why where it does not get to `safe`."""

from __future__ import annotations

from pathlib import Path

import pytest

from accumlint.analysis import Options, check_source
from accumlint.source.text import SourceText

pytest.importorskip("torch")

SHAPES = sorted((Path(__file__).parents[1] / "end_to_end" / "shapes").glob("*.py"))
REFUSED = {
    "criterion_attribute_unbound": "what `self.loss_func(preds, yb)` divides by is out of sight",
    "distilled_and_labelled": "several loss terms with counts of their own: "
    "`soft.size(0)` and `int((y != -100).sum())`; no pre-count, as `soft`, which the count needs, "
    "is computed by a call in the loop",
}


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_each_shape_is_repaired_safely_or_refused_with_its_reason(path: Path) -> None:
    source = SourceText.from_bytes(path.name, path.read_bytes())
    findings = check_source(source, Options(repair=True, confirm=True)).findings
    assert findings
    for finding in findings:
        if path.stem in REFUSED:
            assert finding.fix is None
            assert finding.unfixable == REFUSED[path.stem]
        else:
            assert finding.fix is not None, finding.unfixable
            assert finding.fix.certificate.applicability.value == "safe", finding.fix.certificate.missing
