"""The generated loss table: it is what its generator writes, covers torch, and says what torch computes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accumlint.apis.language import Arg, Attr, Const, Count, Effect, Is, Loss, Make, Operand, Row
from accumlint.apis.losses import FAMILIES
from accumlint.apis.registry import load
from accumlint.apis.signature import Default, parse_signature

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_the_generator_writes() -> None:
    subprocess.run([sys.executable, str(ROOT / "scripts" / "generate_losses.py"), "--check"], check=True)


def test_every_loss_of_torch_is_there() -> None:
    registry = load()
    classes = [name for name in dir(torch.nn) if "Loss" in name]
    functions = [name for name in dir(torch.nn.functional) if name.endswith("_loss") and not name.startswith("_")]
    functions += ["cross_entropy", "kl_div", "binary_cross_entropy", "binary_cross_entropy_with_logits"]
    assert [name for name in classes if registry.find(f"torch.nn.{name}") is None] == []
    assert [name for name in functions if registry.find(f"torch.nn.functional.{name}") is None] == []


# ------------------------------------------------------------------------- each family against torch, numerically

N, C = 6, 4


def arguments(name: str) -> dict[str, Any]:
    """Inputs of a loss by parameter name, with a leaf that requires grad under its `inputs` name."""
    generator = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> Any:
        return torch.rand(*shape, dtype=torch.float64, generator=generator) * 0.8 + 0.1

    indices = torch.tensor([0, 1, 2, 3, 1, 0])
    ignored = torch.tensor([0, -100, 2, -100, 1, 0])
    given: dict[str, Any] = {"input": draw(N, C), "target": draw(N, C)}
    if "CrossEntropy" in name or "NLLLoss" in name.replace("PoissonNLL", "").replace("GaussianNLL", ""):
        given["target"] = ignored
    if "NLLLoss2d" in name:
        given = {"input": draw(2, C, 3, 2), "target": torch.tensor([[[0, -100], [1, 2], [3, 0]]] * 2)}
    if "LinearCrossEntropy" in name:
        given |= {"linear_weight": draw(C, C)}
    if "KLDiv" in name:
        given["input"] = draw(N, C).log()
    if "Gaussian" in name:
        given["var"] = draw(N, C)
    if "HingeEmbedding" in name or "SoftMarginLoss" in name:
        given["target"] = (draw(N, C) > 0.5).double() * 2 - 1
    if "MultiLabelSoft" in name:
        given["target"] = (draw(N, C) > 0.5).double()
    if "MultiMargin" in name:
        given["target"] = indices
    if "MultiLabelMargin" in name:
        given["target"] = torch.tensor([[0, 2, -1, 1]] * N)
    if "MarginRanking" in name:
        given = {"input1": draw(N), "input2": draw(N), "target": torch.ones(N, dtype=torch.float64)}
    if "CosineEmbedding" in name:
        given = {"input1": draw(N, C), "input2": draw(N, C), "target": torch.ones(N, dtype=torch.float64)}
    if "Triplet" in name:
        given = {"anchor": draw(N, C), "positive": draw(N, C), "negative": draw(N, C)}
    if "CTC" in name:
        given = {
            "log_probs": draw(8, N, C).log_softmax(-1),
            "targets": torch.tensor([[1, 2, 3]] * N),
            "input_lengths": torch.full((N,), 8),
            "target_lengths": torch.tensor([3, 1, 2, 3, 2, 1]),
        }
    if "Adaptive" in name:
        given = {"input_": draw(N, 8), "target_": indices}
    return given


EXTRA = {"torch.nn.LinearCrossEntropyLoss": (C, C), "torch.nn.AdaptiveLogSoftmaxWithLoss": (8, C, [2])}


def resolve(path: str) -> Any:
    found: Any = torch
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    return found


def holds(condition: Is, value: object) -> bool:
    """A condition where everything is known; a tensor equals no constant."""
    same = value is condition.value or (isinstance(value, str) and value == condition.value)
    return same is not condition.negated


def chosen(effects: tuple[Effect, ...], values: dict[str, object]) -> Effect:
    """The one effect whose conditions hold."""
    fitting = [
        e
        for e in effects
        if all(holds(c, values[c.operand.name]) for c in e.when)  # type: ignore[union-attr]
    ]
    assert len(fitting) == 1, fitting
    return fitting[0]


def value_of(operand: Operand, values: dict[str, object]) -> object:
    match operand:
        case Const(value):
            return value
        case Arg(name) | Attr(name):
            return values[name]
    raise AssertionError(operand)


def counted(loss: Loss, values: dict[str, Any]) -> Any:
    """The count that the row claims, by its kind."""
    inputs = value_of(loss.inputs, values) if loss.inputs else None
    targets: Any = value_of(loss.targets, values)
    ignored = value_of(loss.ignore, values) if loss.ignore else -100
    valid = targets != (-100 if ignored is None else ignored)
    match loss.count:
        case Count.VALID_TARGETS:
            return valid.sum()
        case Count.WEIGHTED_TARGETS:
            weights: Any = value_of(loss.weights, values)  # type: ignore[arg-type]
            return weights[targets[valid]].sum()
        case Count.ELEMENTS:
            return inputs.numel()  # type: ignore[attr-defined]
        case Count.ROWS:
            return targets.size(0)
        case Count.WEIGHT_SUM:
            return value_of(loss.weights, values).sum()  # type: ignore[arg-type, attr-defined]
    raise AssertionError(loss.count)


def defaults(parameters: str) -> dict[str, object]:
    bound = parse_signature(parameters).bind((), {})
    return {name: value.value for name, value in bound.items() if isinstance(value, Default)}


def cases(row: Row) -> list[dict[str, Any]]:
    """Option sets worth running on a row: plain, weighted, batchmean, and the legacy arguments."""
    names = parse_signature(row.parameters).names
    found: list[dict[str, Any]] = [{}]
    if "weight" in names:
        found.append({"weight": torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)})
    if "kl_div" in row.call or "KLDiv" in row.call:
        found.append({"reduction": "batchmean"})
    return found


LEGACY = [
    {"size_average": False},
    {"reduce": False},
    {"size_average": True},
    {"reduce": True},
    {"size_average": False, "reduce": True},
    {"size_average": True, "reduce": False},
]
FUNCTIONALS = [family for family in FAMILIES if family.functional_name]


def options_for(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Element weights for those whose weight is not one a class."""
    if "weight" in options and name.rpartition(".")[2] in {"mse_loss", "l1_loss", "huber_loss"}:
        return {"weight": torch.rand(N, C, dtype=torch.float64, generator=torch.Generator().manual_seed(3))}
    return options


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.filterwarnings("ignore")
def test_module_mean_times_count_is_sum(family: Any) -> None:
    row = load().find(family.name)
    call = load().find(f"{family.name}.__call__")
    assert row is not None
    assert call is not None
    for options in cases(row):
        given = arguments(family.name)
        given.pop("linear_weight", None)  # the module's own parameter
        torch.manual_seed(0)
        module = resolve(family.name)(*EXTRA.get(family.name, ()), **options).double()
        made = chosen(row.does, defaults(family.constructor) | options)
        assert isinstance(made, Make)
        attributes = {k: value_of(o, defaults(family.constructor) | options) for k, o in made.attributes}
        assert attributes["reduction"] == getattr(module, "reduction", "mean")
        loss = chosen(call.does, given | attributes)
        assert isinstance(loss, Loss)
        mean = module(*given.values())
        if "Adaptive" in family.name:
            total, mean = -mean.output.sum(), mean.loss
        elif "CTC" in family.name:
            none = torch.nn.functional.ctc_loss(**given, reduction="none")
            total = (none / given["target_lengths"].clamp(min=1)).sum()
            assert loss.sum_form == "(F.ctc_loss(..., reduction='none') / target_lengths.clamp(min=1)).sum()"
        else:
            module.reduction = "sum"
            total = module(*given.values())
            assert loss.sum_form == "reduction='sum'"
        torch.testing.assert_close(mean * counted(loss, given | attributes), total)


@pytest.mark.parametrize("family", FUNCTIONALS, ids=lambda family: family.functional_name)
@pytest.mark.filterwarnings("ignore")
def test_functional_mean_times_count_is_sum(family: Any) -> None:
    row = load().find(family.functional_name)
    assert row is not None
    function = resolve(family.functional_name)
    for plain in cases(row):
        options = options_for(family.functional_name, plain)
        given = arguments(family.name)
        values = defaults(family.functional_parameters) | given | options
        loss = chosen(row.does, values)
        assert isinstance(loss, Loss)
        mean = function(**given, **options)
        if "ctc" in family.functional_name:
            none = function(**given, reduction="none")
            total = (none / given["target_lengths"].clamp(min=1)).sum()
        else:
            total = function(**given, **(options | {"reduction": "sum"}))
        torch.testing.assert_close(mean * counted(loss, values), total)


@pytest.mark.parametrize("legacy", LEGACY, ids=str)
@pytest.mark.parametrize(
    "family",
    [family for family in FAMILIES if "size_average" in family.constructor],
    ids=lambda family: family.name,
)
@pytest.mark.filterwarnings("ignore")
def test_legacy_arguments_choose_the_reduction(family: Any, legacy: dict[str, bool]) -> None:
    row = load().find(family.name)
    assert row is not None
    made = chosen(row.does, defaults(family.constructor) | legacy)
    assert isinstance(made, Make)
    assert dict(made.attributes)["reduction"] == Const(resolve(family.name)(**legacy).reduction)


@pytest.mark.parametrize("family", FUNCTIONALS, ids=lambda family: family.functional_name)
@pytest.mark.filterwarnings("ignore")
def test_what_a_zero_count_leaves(family: Any) -> None:
    """`empty` of the losses whose count can be zero at a full batch: the gradient after backward."""
    row = load().find(family.functional_name)
    assert row is not None
    given = arguments(family.name)
    options: dict[str, Any] = {}
    if family.functional.count is Count.VALID_TARGETS:
        given["target"] = torch.full_like(given["target"], -100)
    elif family.functional.weighted is Count.WEIGHT_SUM:
        options = {"weight": torch.zeros(N, C, dtype=torch.float64)}
    else:
        pytest.skip("its count is zero only for an empty batch")
    given["input"].requires_grad_()
    loss = chosen(row.does, defaults(family.functional_parameters) | given | options)
    assert isinstance(loss, Loss)
    resolve(family.functional_name)(**given, **options).backward()
    nan = bool(given["input"].grad.isnan().any())
    assert loss.empty.value == ("nan" if nan else "zero")
