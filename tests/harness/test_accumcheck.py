"""Right loops pass, every wrong recipe is caught and named, bad input is never equivalent."""

from __future__ import annotations

import contextlib
import functools
import json

import pytest

torch = pytest.importorskip("torch")

import loops  # noqa: E402
from loops import K  # noqa: E402

from accumlint.harness import FaultKind, accumcheck  # noqa: E402
from accumlint.harness.errors import (  # noqa: E402
    ControlFailedError,
    EqualCountsError,
    HarnessError,
    NeverSteppedError,
    NonFiniteError,
    RunawayLoopError,
    TrainingLoopError,
    UnsuitableModelError,
)
from accumlint.harness.toys import Toy, classification_toy  # noqa: E402

torch.set_num_threads(1)


def check(loop, toy=None, **options):
    toy = toy or classification_toy()
    options = {"loss_sum": toy.loss_sum, "count": toy.count, **options}
    return accumcheck(loop, toy.model, toy.microbatches, **options)


@pytest.mark.parametrize("steps", [None, K])
@pytest.mark.parametrize("loop", loops.RIGHT, ids=lambda loop: loop.__name__)
def test_right_loops_pass(loop, steps):
    report = check(loop, accumulation_steps=steps)
    assert report.equivalent, str(report)
    assert report.control_error > 0.01
    assert report.steps == report.expected_steps == 3
    assert report.accumulation_steps == K
    assert not report.untested
    for window in report.windows:
        assert window.update_error <= report.tolerance
        for weight, belongs in zip(window.weights, window.expected, strict=True):
            assert belongs == 0 if weight is None else weight == pytest.approx(belongs, rel=1e-6)


@pytest.mark.parametrize("loop", [loops.weighted_mean_sequential, loops.one_graph], ids=lambda loop: loop.__name__)
def test_right_loops_whose_backward_calls_do_not_count_microbatches(loop):
    with pytest.raises(HarnessError, match="accumulation_steps"):
        check(loop)
    assert check(loop, accumulation_steps=K).equivalent


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad])
@pytest.mark.parametrize("loop", [loops.precount_clip, loops.deferred], ids=lambda loop: loop.__name__)
def test_other_optimizers(make, loop):
    report = check(loop, optimizer=lambda p: make(p, lr=1e-3, weight_decay=0.01))
    assert report.equivalent, str(report)


WRONG = [
    (loops.naive, FaultKind.EQUAL_WEIGHT, {}),
    (loops.naive_constant, FaultKind.EQUAL_WEIGHT, {}),
    (loops.naive_constant, FaultKind.SHORT_WINDOW, {}),
    (loops.means_summed, FaultKind.MEANS_SUMMED, {}),
    (loops.running_count, FaultKind.RUNNING_COUNT, {}),
    (loops.last_count, FaultKind.LAST_COUNT, {}),
    (loops.sum_div_k, FaultKind.SUM_DIVIDED_BY_STEPS, {}),
    (loops.sum_undivided, FaultKind.SUM_NOT_DIVIDED, {}),
    (loops.precount_div_k, FaultKind.DIVIDED_TWICE, {}),
    (loops.unpadded_count, FaultKind.WRONG_COUNT, {}),
    (loops.count_not_reset, FaultKind.WRONG_COUNT, {}),
    (loops.clip_before_div, FaultKind.CLIP_BEFORE_DIVISION, {}),
    (loops.clip_each, FaultKind.CLIP_EACH, {}),
    (loops.clip_twice, FaultKind.CLIP_TWICE, {}),
    (loops.precount, FaultKind.CLIP_MISSING, {"max_norm": loops.CLIP}),
    (loops.precount_clip, FaultKind.CLIP_THRESHOLD, {"max_norm": 0.01}),
    (loops.step_each, FaultKind.STEP_EACH, {}),
    (loops.zero_each, FaultKind.LOST, {}),
    (loops.never_zero, FaultKind.STALE, {}),
    (loops.leftover, FaultKind.LEFTOVER, {}),
    (loops.off_by_one, FaultKind.BOUNDARY, {}),
    (loops.nan_on_empty, FaultKind.NON_FINITE, {}),
]
NAMES = [f"{kind.name.lower()}-{index}" for index, (_, kind, _) in enumerate(WRONG)]


@pytest.mark.parametrize(("loop", "kind", "options"), WRONG, ids=NAMES)
def test_wrong_loops_are_named(loop, kind, options):
    for seed in (0, 1):
        report = check(loop, classification_toy(seed=seed), accumulation_steps=K, **options)
        assert not report.equivalent
        assert report.has(kind), str(report)


@pytest.mark.parametrize(("loop", "kind", "options"), WRONG, ids=NAMES)
def test_wrong_loops_fail_without_being_told_the_window(loop, kind, options):
    assert not check(loop, **options).equivalent


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.SGD])
def test_scale_errors_do_not_hide_behind_adam_or_a_clip(make):
    def loop(model, microbatches, optimizer):
        for window in loops.windows(microbatches):
            for mb in window:
                (loops.loss_sum(model, mb) / loops.total(window) / K).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-4)
            optimizer.step()
            optimizer.zero_grad()

    report = check(loop, optimizer=lambda p: make(p, lr=1e-3))
    assert report.has(FaultKind.DIVIDED_TWICE), str(report)


@pytest.mark.parametrize("margin", [1e-6, 0.0], ids=["as torch", "without a margin"])
@pytest.mark.parametrize("options", [{"max_norm": loops.CLIP}, {}], ids=["told", "not told"])
def test_a_clip_written_by_hand_hides_nothing(options, margin):
    report = check(functools.partial(loops.hand_clip, margin=margin), **options)
    assert report.equivalent, str(report)
    assert any("other means" in text for text in (*report.assumptions, *report.limits))
    for factor, kind in ((1 / K, FaultKind.DIVIDED_TWICE), (K, FaultKind.WRONG_SCALE)):
        report = check(functools.partial(loops.hand_clip, factor=factor, margin=margin), **options)
        assert report.has(kind), str(report)
        assert len({fault.kind for fault in report.faults} - {kind}) == 0, str(report)


def test_equal_weights_behind_a_clip_written_by_hand_are_named():
    def loop(model, microbatches, optimizer):
        for window in loops.windows(microbatches):
            for mb in window:
                (loops.guarded_mean(model, mb) / len(window)).backward()
            norm = sum(float(p.grad.square().sum()) for p in model.parameters()) ** 0.5
            loops.divide(model, max(norm / loops.CLIP, 1.0))
            optimizer.step()
            optimizer.zero_grad()

    for options in ({"max_norm": loops.CLIP}, {}):
        report = check(loop, **options)
        assert {fault.kind for fault in report.faults} == {FaultKind.EQUAL_WEIGHT}, str(report)
        assert report.windows[0].weights == pytest.approx((1 / 3, 1 / 3, None))


def test_a_gradient_that_is_always_normalised_is_no_clip():
    def loop(model, microbatches, optimizer):
        for window in loops.windows(microbatches):
            for mb in window:
                (loops.loss_sum(model, mb) / loops.total(window)).backward()
            loops.divide(model, sum(float(p.grad.square().sum()) for p in model.parameters()) ** 0.5 / loops.CLIP)
            optimizer.step()
            optimizer.zero_grad()

    assert not check(loop).equivalent
    assert not check(loop, max_norm=loops.CLIP).equivalent


def test_an_inactive_clip_is_made_active():
    def loop(model, microbatches, optimizer):
        for window in loops.windows(microbatches):
            for mb in window:
                loops.loss_sum(model, mb).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e6)
            loops.divide(model, loops.total(window))
            optimizer.step()
            optimizer.zero_grad()

    assert check(loop).has(FaultKind.CLIP_BEFORE_DIVISION)


def test_clip_by_value():
    def loop(model, microbatches, optimizer):
        for window in loops.windows(microbatches):
            for mb in window:
                (loops.loss_sum(model, mb) / loops.total(window)).backward()
            torch.nn.utils.clip_grad_value_(model.parameters(), 0.002)
            optimizer.step()
            optimizer.zero_grad()

    assert check(loop).equivalent
    assert check(loop, clip_value=0.002).equivalent
    assert not check(loop, clip_value=0.001).equivalent


def test_the_worked_example():
    class Weight(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor(2.0))

    def total(model, mb):
        return mb[0] * mb[1] * model.weight

    def right(model, mbs, optimizer):
        n = sum(mb[1] for mb in mbs)
        for mb in mbs:
            (total(model, mb) / n).backward()
        optimizer.step()

    def wrong(model, mbs, optimizer):
        for mb in mbs:
            (total(model, mb) / mb[1]).backward()
        optimizer.step()

    mbs = [(3.0, 2), (-1.0, 5)]
    options = {"loss_sum": total, "count": lambda mb: mb[1], "optimizer": lambda p: torch.optim.SGD(p, lr=0.7)}
    assert accumcheck(right, Weight(), mbs, **options).equivalent
    report = accumcheck(wrong, Weight(), mbs, **options)
    assert not report.equivalent
    assert report.windows[0].expected == (2 / 7, 5 / 7)


def test_weights_are_recovered_and_printed():
    report = check(loops.means_summed, classification_toy((2, 5)), accumulation_steps=2)
    assert report.windows[0].weights == pytest.approx((1, 1))
    assert "weights 1, 1 where 2/7, 5/7 belong" in str(report)
    data = json.loads(report.to_json())
    assert data["faults"][0]["kind"] == "means-summed"
    assert data["equivalent"] is False


def test_the_model_and_the_hooks_are_left_alone():
    toy = classification_toy()
    before = [p.clone() for p in toy.model.parameters()]
    functions = torch.autograd.backward, torch.nn.utils.clip_grad_norm_, loops.clip_grad_norm_
    optimizer = torch.optim.SGD(toy.model.parameters(), lr=0.1, momentum=0.9)
    assert check(loops.precount_clip, toy, optimizer=optimizer).equivalent
    assert all(torch.equal(a, b) for a, b in zip(before, toy.model.parameters(), strict=True))
    assert all(p.grad is None for p in toy.model.parameters())
    assert not optimizer.state
    assert functions == (torch.autograd.backward, torch.nn.utils.clip_grad_norm_, loops.clip_grad_norm_)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_lower_precision(dtype, limit):
    report = check(loops.precount, dtype=dtype)
    assert report.equivalent, str(report)
    assert report.tolerance == limit
    assert not check(loops.naive, dtype=dtype).equivalent


def test_integer_division_gets_its_own_tolerance():
    report = check(loops.weighted_mean_integers)
    assert report.tolerance == 1e-7
    assert 1e-12 < report.error < 1e-7
    assert check(loops.precount).tolerance == 1e-12


class Rounds(torch.nn.Module):
    """Casts inside, as Hugging Face's norms and losses do."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        return x.to(self.dtype).tanh().to(x.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_cast_inside_of_the_model_gets_the_tolerance_of_its_dtype(dtype):
    for loop, equivalent in ((loops.deferred, True), (loops.naive, False)):
        report = check(loop, with_layers(Rounds(dtype)))
        assert report.equivalent is equivalent, str(report)
        assert report.tolerance == {torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]
        assert any("casts to" in text for text in report.assumptions)
    assert not check(loops.deferred, with_layers(Rounds(dtype)), tolerance=1e-12).equivalent


def test_a_cast_in_the_loop_alone_is_noticed():
    def loop(model, microbatches, optimizer):
        for window in loops.windows(microbatches):
            for mb in window:
                rounded = torch.nn.functional.cross_entropy(
                    model(mb[0]).float(), mb[1], reduction="sum", ignore_index=-100
                )
                (rounded / loops.total(window)).backward()
            optimizer.step()
            optimizer.zero_grad()

    report = check(loop)
    assert report.equivalent, str(report)
    assert 1e-12 < report.error < report.tolerance == 1e-5


def with_layers(*layers):
    toy = classification_toy()
    first, activation, last = toy.model
    return Toy(torch.nn.Sequential(first, *layers, activation, last).double(), toy.microbatches)


def train_mode(model, microbatches, optimizer):
    model.train()
    loops.precount(model, microbatches, optimizer)


def test_dropout_and_batch_norm_are_limits():
    report = check(train_mode, with_layers(torch.nn.Dropout(0.3), torch.nn.Dropout(0.3)))
    assert report.equivalent
    assert "dropout (1, 2)" in report.limits[0]
    report = check(train_mode, with_layers(torch.nn.BatchNorm1d(6)))
    assert report.equivalent
    assert "BatchNorm" in report.limits[0]


class Noise(torch.nn.Module):
    def __init__(self, always):
        super().__init__()
        self.always = always

    def forward(self, x):
        return x + torch.randn_like(x) if self.training or self.always else x


def test_a_random_model():
    report = check(train_mode, with_layers(Noise(False)))
    assert report.equivalent
    assert "eval mode" in report.limits[0]
    with pytest.raises(UnsuitableModelError, match="random"):
        check(train_mode, with_layers(Noise(True)))


def test_a_batch_coupled_loss_is_not_equivalent():
    def coupled(model, mb):
        rows = model(mb[0][mb[1] != -100])
        return torch.nn.functional.cross_entropy(rows @ rows.T, torch.arange(len(rows)), reduction="sum")

    def loop(model, microbatches, optimizer):
        n = sum(map(loops.count, microbatches))
        for mb in microbatches:
            (coupled(model, mb) / n).backward()
        optimizer.step()

    report = check(loop, loss_sum=coupled)
    assert not report.equivalent
    assert report.has(FaultKind.BATCH_COUPLED)


def test_what_cannot_be_tested_is_said():
    report = check(loops.precount, classification_toy((2, 5, 1, 4, 6, 3)), force_cases=False)
    assert report.equivalent
    assert any("without a valid target" in text for text in report.untested)
    assert any("no partial window" in text for text in report.untested)


def weighted_mean_unguarded(model, microbatches, optimizer):
    for window in loops.windows(microbatches):
        for mb in window:
            mask = (mb[1] != -100).double()
            losses = torch.nn.functional.cross_entropy(model(mb[0]), mb[1].clamp(min=0), reduction="none")
            ((losses * mask).sum() / mask.sum() * loops.count(mb) / loops.total(window)).backward()
        optimizer.step()
        optimizer.zero_grad()


WHOLE = (2, 5, 1, 4, 6, 3)  # whole windows, a target in each microbatch


@pytest.mark.parametrize(
    ("loop", "kind"),
    [(weighted_mean_unguarded, FaultKind.NON_FINITE), (loops.leftover, FaultKind.LEFTOVER)],
    ids=["no target", "partial window"],
)
def test_what_the_data_lack_is_forced(loop, kind):
    toy = classification_toy(WHOLE)
    assert check(loop, toy, force_cases=False, accumulation_steps=K).equivalent
    report = check(loop, toy, accumulation_steps=K)
    assert [fault.kind for fault in report.faults] == [kind], str(report)
    assert "forced" in report.faults[0].message


@pytest.mark.parametrize("loop", loops.RIGHT, ids=lambda loop: loop.__name__)
def test_right_loops_pass_what_is_forced(loop):
    report = check(loop, classification_toy(WHOLE), accumulation_steps=K)
    assert report.equivalent, str(report)
    assert report.untested == ()


def test_a_loop_that_takes_its_list_for_one_window():
    def loop(model, microbatches, optimizer):
        n = sum(map(loops.count, microbatches))
        for mb in microbatches:
            (loops.loss_sum(model, mb) / n).backward()
        optimizer.step()

    report = check(loop, classification_toy((2, 5, 3)))
    assert report.equivalent, str(report)
    assert [text for text in report.untested if "without" in text] == []


def test_a_loop_that_knows_its_data_is_not_failed_for_others():
    toy = classification_toy(WHOLE)
    totals = {len(toy.microbatches): [sum(WHOLE[:3]), sum(WHOLE[3:])]}

    def loop(model, microbatches, optimizer):
        for window, n in zip(loops.windows(microbatches), totals[len(microbatches)], strict=True):
            for mb in window:
                (loops.loss_sum(model, mb) / n).backward()
            optimizer.step()
            optimizer.zero_grad()

    toy = Toy(toy.model, [(x, y, "a note") for x, y in toy.microbatches])
    loss = {"loss_sum": lambda model, mb: Toy.loss_sum(model, mb[:2]), "count": lambda mb: Toy.count(mb[:2])}

    def noted(model, microbatches, optimizer):
        loop(model, [mb[:2] for mb in microbatches], optimizer)

    report = check(noted, toy, accumulation_steps=K, **loss)
    assert report.equivalent, str(report)
    assert any("the loop raised KeyError" in text for text in report.untested)


def never_steps(model, microbatches, optimizer):
    for mb in microbatches:
        loops.loss_sum(model, mb).backward()


def steps_another(model, microbatches, optimizer):
    other = torch.nn.Linear(1, 1)
    own = torch.optim.SGD(other.parameters(), lr=0.1)
    never_steps(model, microbatches, optimizer)
    own.step()


def own_optimizer(model, microbatches, optimizer):
    loops.precount(model, microbatches, torch.optim.SGD(model.parameters(), lr=0.5))


def endless(model, microbatches, optimizer):
    while True:
        never_steps(model, microbatches, optimizer)


def raising(model, microbatches, optimizer):
    raise KeyError("boom")


def exiting(model, microbatches, optimizer):
    raise SystemExit(0)


def lbfgs(model, microbatches, optimizer):
    def closure():
        loss = loops.loss_sum(model, microbatches[0])
        loss.backward()
        return loss

    torch.optim.LBFGS(model.parameters()).step(closure)


def closing(model, microbatches, optimizer, weight=lambda window, mb: 1 / max(loops.total(window), 1), clip=False):
    """Makes the whole gradient inside of `optimizer.step(closure)`, as Lightning does with a window's end."""
    for window in loops.windows(microbatches):

        def closure(window=window):
            optimizer.zero_grad()
            for mb in window:
                loss = loops.loss_sum(model, mb) * weight(window, mb)
                loss.backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), loops.CLIP)
            return loss

        optimizer.step(closure) if clip else optimizer.step(closure=closure)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW])
def test_a_closure(clip, make):
    options = {"optimizer": lambda p: make(p, lr=0.1)}
    report = check(functools.partial(closing, clip=clip), **options)
    assert report.equivalent, str(report)
    assert (report.steps, report.clips) == (3, 3 * clip)
    report = check(
        functools.partial(closing, weight=lambda window, mb: 1 / len(window) / max(loops.count(mb), 1), clip=clip),
        **options,
    )
    assert {fault.kind for fault in report.faults} == {FaultKind.EQUAL_WEIGHT}


def spinning(model, microbatches, optimizer):
    """Calls nothing that could be watched."""
    while True:
        try:
            len(microbatches)
        except Exception:
            continue


def test_a_loop_that_does_nothing_for_ever_is_stopped():
    with pytest.raises(RunawayLoopError, match="more than 1 s"):
        check(spinning, timeout=1.0)


def swallows(model, microbatches, optimizer):
    """A second optimizer, whose refusal the loop hides from itself."""
    loops.precount(model, microbatches, optimizer)
    with contextlib.suppress(Exception):
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def test_a_refusal_cannot_be_caught_by_the_loop():
    with pytest.raises(HarnessError, match="more than one optimizer"):
        check(swallows)


def test_an_optimizer_made_inside_the_loop():
    assert check(own_optimizer).equivalent


@pytest.mark.parametrize(
    ("loop", "error"),
    [
        (never_steps, NeverSteppedError),
        (steps_another, NeverSteppedError),
        (endless, RunawayLoopError),
        (raising, TrainingLoopError),
        (exiting, TrainingLoopError),
        (lbfgs, HarnessError),
    ],
)
def test_loops_that_cannot_be_judged(loop, error):
    with pytest.raises(error):
        check(loop)


class NoCopy(torch.nn.Linear):
    def __deepcopy__(self, memo):
        raise RuntimeError("holds a lock")


BAD = [
    ({"toy": classification_toy((3, 3, 0, 3))}, EqualCountsError),
    ({"toy": classification_toy((5,))}, EqualCountsError),
    ({"toy": classification_toy((0, 0))}, NonFiniteError),
    ({"toy": Toy(NoCopy(4, 3), classification_toy().microbatches)}, UnsuitableModelError),
    ({"toy": Toy(torch.nn.Tanh(), classification_toy().microbatches)}, UnsuitableModelError),
    ({"loss_sum": Toy.loss_mean}, NonFiniteError),
    ({"loss_sum": lambda m, mb: m(mb[0])}, HarnessError),
    ({"loss_sum": lambda m, mb: 1 / 0}, HarnessError),
    ({"loss_sum": lambda m, mb: Toy.loss_sum(m, mb) * 0}, NonFiniteError),
    ({"count": lambda mb: -1}, HarnessError),
    ({"count": lambda mb: mb.missing}, HarnessError),
    ({"optimizer": lambda p: 1}, HarnessError),
    ({"tolerance": 10.0}, ControlFailedError),
    ({"toy": classification_toy((2, 5)), "accumulation_steps": 0}, HarnessError),
    ({"toy": classification_toy((5, 5, 2)), "accumulation_steps": 2}, ControlFailedError),
]


@pytest.mark.parametrize(("options", "error"), BAD, ids=range(len(BAD)))
def test_bad_input_raises(options, error):
    with pytest.raises(error):
        check(loops.precount, **options)


def test_no_microbatches():
    with pytest.raises(HarnessError, match="no microbatches"):
        check(loops.precount, Toy(classification_toy().model, []))


def test_a_clip_imported_inside_a_function_is_seen():
    from torch.nn.utils import clip_grad_norm_

    def loop(model, microbatches, optimizer):
        for window in loops.windows(microbatches):
            for mb in window:
                loops.loss_sum(model, mb).backward()
            clip_grad_norm_(model.parameters(), loops.CLIP)
            loops.divide(model, loops.total(window))
            optimizer.step()
            optimizer.zero_grad()

    assert check(loop).has(FaultKind.CLIP_BEFORE_DIVISION)
    assert clip_grad_norm_ is torch.nn.utils.clip_grad_norm_


def hooked(model, microbatches, optimizer):
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient * 0.5)
    loops.precount(model, microbatches, optimizer)


def replaced(model, microbatches, optimizer):
    model[1] = torch.nn.ReLU()
    loops.precount(model, microbatches, optimizer)


def decayed(model, microbatches, optimizer):
    loops.precount(model, microbatches, optimizer)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)


def spoils_data(model, microbatches, optimizer):
    for inputs, _ in microbatches:
        inputs.zero_()
    loops.precount(model, microbatches, optimizer)


def relabels(model, microbatches, optimizer):
    for _, targets in microbatches:
        targets[targets == 1] = -100
    loops.precount(model, microbatches, optimizer)


def steps_twice(model, microbatches, optimizer):
    for window in loops.windows(microbatches):
        for mb in window:
            (loops.loss_sum(model, mb) / loops.total(window)).backward()
        optimizer.step()
        optimizer.step()
        optimizer.zero_grad()


def skips_the_end(model, microbatches, optimizer):
    loops.precount(model, microbatches[:6], optimizer)


def two_epochs(model, microbatches, optimizer):
    loops.precount(model, microbatches, optimizer)
    loops.precount(model, microbatches, optimizer)


def penalty_each(model, microbatches, optimizer):
    for window in loops.windows(microbatches):
        for mb in window:
            penalty = 0.01 * sum(p.square().sum() for p in model.parameters())
            (loops.loss_sum(model, mb) / loops.total(window) + penalty).backward()
        optimizer.step()
        optimizer.zero_grad()


def partial_clip(model, microbatches, optimizer):
    for window in loops.windows(microbatches):
        for mb in window:
            (loops.loss_sum(model, mb) / loops.total(window)).backward()
        torch.nn.utils.clip_grad_norm_(model[0].parameters(), 0.01)
        optimizer.step()
        optimizer.zero_grad()


def functional_naive(model, microbatches, optimizer):
    parameters = list(model.parameters())
    for window in loops.windows(microbatches):
        for mb in window:
            loss = loops.guarded_mean(model, mb) / len(window)
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        optimizer.step()
        optimizer.zero_grad()


SLY = [
    hooked, replaced, decayed, spoils_data, relabels, steps_twice, skips_the_end, two_epochs, penalty_each,
    partial_clip, functional_naive,
]  # fmt: skip


@pytest.mark.parametrize("loop", SLY, ids=lambda loop: loop.__name__)
def test_what_might_slip_through(loop):
    assert not check(loop, accumulation_steps=K).equivalent


def scaled(model, microbatches, optimizer, unscale=True):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for window in loops.windows(microbatches):
        for mb in window:
            scaler.scale(loops.loss_sum(model, mb) / loops.total(window)).backward()
        if unscale:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), loops.CLIP)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def test_a_gradient_scaler():
    assert check(scaled).equivalent
    assert check(functools.partial(scaled, unscale=False)).has(FaultKind.CLIP_BEFORE_DIVISION)


def test_freezing_is_a_limit():
    def freezes(model, microbatches, optimizer):
        for parameter in model[0].parameters():
            parameter.requires_grad_(False)
        loops.precount(model, microbatches, optimizer)

    report = check(freezes)
    assert report.equivalent
    assert any("freezes 2 parameters" in text for text in report.limits)


def test_windows_of_one_microbatch():
    def loop(model, microbatches, optimizer):
        for mb in microbatches:
            (loops.loss_sum(model, mb) / max(loops.count(mb), 1)).backward()
            optimizer.step()
            optimizer.zero_grad()

    assert check(loop, accumulation_steps=1).equivalent
    assert check(loop).has(FaultKind.STEP_EACH)
