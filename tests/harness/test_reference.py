"""The scalar contract, the worked example, and the two classical wrong answers, on torch tensors."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from accumlint.harness import full_batch_gradient, reference_update, weighted_mean  # noqa: E402
from accumlint.harness.reference import clip_gradient  # noqa: E402
from accumlint.harness.tolerances import get_tolerance, l2_norm, relative_error  # noqa: E402
from accumlint.harness.toys import classification_toy  # noqa: E402

torch.set_num_threads(1)

CONTRACT = [
    # sums, counts, right, sum of means, mean of means
    ([2, 12], [1, 3], 3.5, 6, 3),
    ([2, 4], [1, 1], 3, 6, 3),
    ([7], [1], 7, 7, 7),
    ([], [], 0, 0, 0),
    ([0, 9], [1, 3], 2.25, 3, 1.5),
    ([12], [4], 3, 3, 3),
    ([1, 6, 8], [1, 2, 4], 15 / 7, 6, 2),
]


def sum_of_means(sums, counts):
    return sum(s / n for s, n in zip(sums, counts, strict=True))


def mean_of_means(sums, counts):
    return sum_of_means(sums, counts) / len(sums) if sums else 0


@pytest.mark.parametrize(("sums", "counts", "right", "summed", "averaged"), CONTRACT)
def test_contract(sums, counts, right, summed, averaged):
    assert weighted_mean(sums, counts).item() == right
    for dtype in (torch.float64, torch.float32):
        tensor = weighted_mean(torch.tensor(sums, dtype=dtype), torch.tensor(counts, dtype=torch.int64))
        assert tensor.dtype == dtype
        assert tensor.item() == torch.tensor(right, dtype=dtype).item()
    assert sum_of_means(sums, counts) == summed
    assert mean_of_means(sums, counts) == averaged


def test_the_wrong_answers_fail_the_contract():
    assert [row[3] == row[2] for row in CONTRACT] == [False, False, True, True, False, True, False]
    assert [row[4] == row[2] for row in CONTRACT] == [False, True, True, True, False, True, False]


def test_zero_total_has_zero_gradient_even_beside_nan():
    for start in (0.0, 5.0, math.nan):
        sums = torch.full((2,), start, requires_grad=True)
        mean = weighted_mean(sums, torch.zeros(2))
        mean.backward()
        assert mean.item() == 0
        assert sums.grad.tolist() == [0, 0]


def test_gradient_flows_through_lists_of_scalars():
    parts = [torch.tensor(2.0, requires_grad=True), torch.tensor(12.0, requires_grad=True)]
    weighted_mean(parts, [1, 3]).backward()
    assert [part.grad.item() for part in parts] == [0.25, 0.25]


def test_counts_beyond_low_precision_are_exact():
    assert weighted_mean(torch.tensor([257.0]), torch.tensor([257], dtype=torch.int64)).item() == 1
    assert weighted_mean(torch.tensor([70000.0]), torch.tensor([70000])).item() == 1


@pytest.mark.parametrize(("sums", "counts"), [([1], [1, 2]), ([1], [-1]), ([1], [math.nan]), ([1], [math.inf])])
def test_bad_counts_are_refused(sums, counts):
    with pytest.raises(ValueError, match="count"):
        weighted_mean(sums, counts)


class Weight(torch.nn.Module):
    """One weight; a microbatch `(mean gradient, count)` has the loss sum `count * mean gradient * weight`."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))


WINDOW = [(3.0, 2), (-1.0, 5)]


def line_sum(model, microbatch):
    return microbatch[0] * microbatch[1] * model.weight


def line_count(microbatch):
    return microbatch[1]


def test_worked_example():
    model = Weight()
    gradient = full_batch_gradient(model, WINDOW, line_sum, line_count)["weight"].item()
    assert gradient == pytest.approx(1 / 7, rel=1e-15)
    means = [mean for mean, _ in WINDOW]
    assert sum(means) / 2 == 1
    clipped_first = [max(-1.0, min(1.0, mean)) for mean in means]
    assert sum(g * n for g, (_, n) in zip(clipped_first, WINDOW, strict=True)) / 7 == pytest.approx(-3 / 7, rel=1e-15)
    update = reference_update(
        model, WINDOW, line_sum, line_count, optimizer=lambda p: torch.optim.SGD(p, lr=0.7), max_norm=1.0
    )
    assert update.after["weight"].item() == pytest.approx(1.9, rel=1e-15)
    assert update.count == 7
    assert model.weight.item() == 2.0
    assert model.weight.grad is None


def test_zero_total_gradient_is_zero():
    gradient = full_batch_gradient(Weight(), [(3.0, 0), (-1.0, 0)], line_sum, line_count)
    assert gradient["weight"].item() == 0


def test_full_batch_gradient_is_that_of_the_concatenated_batch():
    toy = classification_toy((2, 5, 0, 3))
    inputs = torch.cat([x for x, _ in toy.microbatches])
    targets = torch.cat([y for _, y in toy.microbatches])
    toy.model.zero_grad()
    toy.loss_mean(toy.model, (inputs, targets)).backward()
    expected = {name: p.grad for name, p in toy.model.named_parameters()}
    gradient = full_batch_gradient(toy.model, toy.microbatches, toy.loss_sum, toy.count)
    assert relative_error(gradient, expected) < 1e-14


@pytest.mark.parametrize("max_norm", [0.05, 1e9])
def test_clip_agrees_with_torch(max_norm):
    toy = classification_toy((2, 5))
    gradient = full_batch_gradient(toy.model, toy.microbatches, toy.loss_sum, toy.count)
    for name, parameter in toy.model.named_parameters():
        parameter.grad = gradient[name].clone()
    torch.nn.utils.clip_grad_norm_(toy.model.parameters(), max_norm)
    assert (
        relative_error(clip_gradient(gradient, max_norm), {n: p.grad for n, p in toy.model.named_parameters()}) < 1e-15
    )
    torch.nn.utils.clip_grad_value_(toy.model.parameters(), 0.002)
    value_clipped = clip_gradient(clip_gradient(gradient, max_norm), clip_value=0.002)
    assert relative_error(value_clipped, {n: p.grad for n, p in toy.model.named_parameters()}) < 1e-15


def test_toy_clip_is_active_in_every_window():
    for seed in range(3):
        toy = classification_toy(seed=seed)
        for start in range(0, 7, 3):
            window = toy.microbatches[start : start + 3]
            assert l2_norm(full_batch_gradient(toy.model, window, toy.loss_sum, toy.count)) > toy.max_norm


def test_tolerances():
    assert [get_tolerance(d) for d in (torch.float64, torch.float32, torch.bfloat16)] == [1e-12, 1e-5, 3e-2]
    assert get_tolerance(torch.float64, integer_division=True) == 1e-7
    assert get_tolerance(torch.float32, integer_division=True) == 1e-5
    with pytest.raises(ValueError, match="int32"):
        get_tolerance(torch.int32)


def test_relative_error_corner_cases():
    one, zero = torch.ones(2), torch.zeros(2)
    assert relative_error({"a": one}, {"a": one}) == 0
    assert relative_error({}, {"a": zero}) == 0
    assert relative_error({"a": one}, {"a": zero}) == math.inf
    assert relative_error({"a": one * math.nan}, {"a": one}) == math.inf
    assert relative_error({"a": one}, {"a": one, "b": one}) == pytest.approx(math.sqrt(0.5))


def test_a_missing_torch_is_said_clearly():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import accumlint.harness as h\n"
        "assert h.HarnessError and h.Runner\n"
        "try: h.weighted_mean\n"
        "except ImportError as e: assert \"pip install 'accumlint[torch]'\" in str(e), e\n"
        "else: raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
