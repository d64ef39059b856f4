"""Writes accumlint/apis/losses.py from scripts/losses.json (measured normalisers) and torch's own signatures.

Usage: python scripts/generate_losses.py [--check]

Needs torch, in the release that losses.json was measured with; `--check` writes nothing and exits 1 on a difference.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TARGET = HERE.parent / "accumlint" / "apis" / "losses.py"
COUNTS = {
    "valid_targets": "VALID_TARGETS",
    "weighted_valid_targets": "WEIGHTED_TARGETS",
    "numel": "ELEMENTS",
    "element_weight_sum": "WEIGHT_SUM",
    "batch": "ROWS",
    "batch (per-sample length-normalised)": "ROWS",
    "numel_div_class_or_feature_dim": "ROWS",
}
ASSUMED_ENTRIES = {
    "CrossEntropyLoss": "CrossEntropyLoss (class indices)",
    "KLDivLoss": "KLDivLoss reduction='mean'",
    "LinearCrossEntropyLoss": "LinearCrossEntropyLoss (options=None)",
}
ASSUMES = {
    "CrossEntropyLoss": ("targets are class indices",),
    "NLLLoss": ("targets are class indices",),
    "NLLLoss2d": ("targets are class indices",),
    "LinearCrossEntropyLoss": ("targets are class indices", "options=None: the chunked path leaves nan at count zero"),
    "AdaptiveLogSoftmaxWithLoss": ("the loss is the result's second element, `.loss`",),
}
LOSS_ARGUMENTS = {
    "CTCLoss": ("log_probs", "target_lengths"),
    "MarginRankingLoss": ("input1", "target"),
    "CosineEmbeddingLoss": ("input1", "target"),
    "TripletMarginLoss": ("anchor", "anchor"),
    "TripletMarginWithDistanceLoss": ("anchor", "anchor"),
    "AdaptiveLogSoftmaxWithLoss": ("input_", "target_"),
    "PoissonNLLLoss": ("input", "target"),
}


def parameters(function: Any) -> str:
    """A signature as the tables spell it: without self, without annotations."""
    kept = [p for name, p in inspect.signature(function).parameters.items() if name != "self"]
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in kept]
    return str(inspect.Signature(bare))[1:-1]


def entries(data: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """losses.json by short class name: the plain entry and the weighted one, for module and functional."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    functional_only: list[dict[str, Any]] = []
    for entry in data["losses"]:
        module = entry["module"].removeprefix("nn.")
        if not module:
            functional_only.append(entry)
            continue
        slot = "weighted" if entry["kind"] == "weighted_valid_targets" and module != "NLLLoss2d" else "plain"
        if module == "LinearCrossEntropyLoss":
            slot = "plain"
        wanted = ASSUMED_ENTRIES.get(module)
        family = found.setdefault(module, {})
        if slot not in family or entry["name"] == wanted:
            family[slot] = entry
    for entry in functional_only:
        for family in found.values():
            if entry["functional"] and family["plain"]["functional"] == entry["functional"]:
                family["functional weighted"] = entry
    return found


def empty(entry: dict[str, Any]) -> str:
    zero = entry["zero_denominator"]
    if "raises" in str(zero.get("empty_batch_mean", "")):
        return "RAISES"
    return "NAN" if zero.get("mean_grad") == "nan" else "ZERO"


def normaliser(plain: dict[str, Any], weighted: dict[str, Any] | None) -> str:
    count, nothing = COUNTS[plain["kind"]], empty(plain)
    if plain["module"] in {"nn.NLLLoss2d", "nn.LinearCrossEntropyLoss"}:  # measured with a weight only; same kernel
        weighted, count = plain, "VALID_TARGETS"
    if weighted is None or COUNTS[weighted["kind"]] == count:
        return f"Normaliser(Count.{count}, EmptyGradient.{nothing})"
    return (
        f"Normaliser(Count.{count}, EmptyGradient.{nothing}, "
        f"Count.{COUNTS[weighted['kind']]}, EmptyGradient.{empty(weighted)})"
    )


def family(name: str, known: dict[str, dict[str, Any]], release: str) -> str:
    import torch

    plain = known["plain"]
    module = getattr(torch.nn, name)
    functional = plain["functional"].removeprefix("F.") if name != "NLLLoss2d" else ""
    inputs, targets = LOSS_ARGUMENTS.get(name, ("input", "target"))
    forward = parameters(module.forward)
    if name == "PoissonNLLLoss":
        forward = forward.replace("log_input, target", "input, target")
    fields = {
        "name": f"torch.nn.{name}",
        "constructor": parameters(module.__init__),
        "forward": forward,
        "functional_name": f"torch.nn.functional.{functional}" if functional else "",
        "functional_parameters": parameters(getattr(torch.nn.functional, functional)) if functional else "",
        "inputs": inputs,
        "targets": targets,
    }
    lines = [f"        {key}={value!r}," for key, value in fields.items()]
    lines.append(f"        module={normaliser(plain, known.get('weighted'))},")
    either = known.get("functional weighted") or known.get("weighted")
    lines.append(f"        functional={normaliser(plain, either)},")
    lines.append(f"        sum_form={plain['sum_form']!r},")
    lines.append(f"        source={f'torch {release}, losses.json: ' + plain['name']!r},")
    if name in ASSUMES:
        lines.append(f"        assumes={ASSUMES[name]!r},")
    return "\n".join(["    Family(", *lines, "    ),"])


def render() -> str:
    data = json.loads((HERE / "losses.json").read_text(encoding="utf-8"))
    release = data["torch"].partition("+")[0]
    families = "\n".join(family(name, known, release) for name, known in entries(data).items())
    return f'''"""Every loss of torch and what its mean divides by.

Generated by scripts/generate_losses.py from scripts/losses.json and torch {release}. Do not edit.
"""

# ruff: noqa: E501

from accumlint.apis.language import Count, EmptyGradient, Rename
from accumlint.apis.loss_families import Family, Normaliser, family_rows

FAMILIES: tuple[Family, ...] = (
{families}
)

ROWS = tuple(row for family in FAMILIES for row in family_rows(family))

RENAMES = (
    Rename("torch.nn.modules.loss", "torch.nn"),
    Rename("torch.nn.modules.adaptive", "torch.nn"),
    Rename("torch.nn.modules.module", "torch.nn"),
)
'''


def main() -> int:
    text = formatted(render())
    if "--check" in sys.argv[1:]:
        return int(TARGET.read_text(encoding="utf-8") != text)
    TARGET.write_text(text, encoding="utf-8")
    return 0


def formatted(text: str) -> str:
    """The text as `ruff format` leaves it, with the repository's settings."""
    import subprocess

    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=HERE.parent).stdout


if __name__ == "__main__":
    sys.exit(main())
