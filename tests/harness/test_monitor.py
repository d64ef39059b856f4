"""The monitor: right loops are silent, wrong ones warn once with numbers, and it costs next to nothing."""

from __future__ import annotations

import json
import warnings

import pytest

torch = pytest.importorskip("torch")

import loops  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from accumlint.harness import FaultKind, watch  # noqa: E402
from accumlint.harness.graph import read_graph  # noqa: E402
from accumlint.harness.monitor import AccumulationWarning  # noqa: E402
from accumlint.harness.toys import classification_toy  # noqa: E402

torch.set_num_threads(1)


def follow(loop, toy=None, **options):
    toy = toy or classification_toy()
    optimizer = torch.optim.SGD(toy.model.parameters(), lr=0.1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with watch(optimizer, toy.model, **options) as monitor:
            loop(toy.model, toy.microbatches, optimizer)
            loop(toy.model, toy.microbatches, optimizer)
    return monitor, [str(w.message) for w in caught if issubclass(w.category, AccumulationWarning)]


def naive_cross_entropy(model, microbatches, optimizer):
    for window in loops.windows(microbatches):
        optimizer.zero_grad()
        for mb in window:
            (loops.loss_mean(model, mb) / len(window)).backward()
        optimizer.step()


RIGHT = [loops.precount, loops.deferred, loops.precount_clip, loops.deferred_clip]


@pytest.mark.parametrize("loop", RIGHT, ids=lambda loop: loop.__name__)
def test_right_loops_are_silent(loop):
    monitor, messages = follow(loop)
    assert messages == []
    assert (monitor.steps, monitor.backwards) == (6, 14)
    assert monitor.windows[0].counts == [2, 5, 0]


def test_equal_weights_are_named_once():
    monitor, messages = follow(naive_cross_entropy)
    assert len(messages) == 1
    assert "1/3, 1/3, 1/3 where 2/7, 5/7, 0 belong (step 1)" in messages[0].replace("0.3333", "1/3")
    assert set(monitor.faults) == {FaultKind.EQUAL_WEIGHT}


@pytest.mark.parametrize(
    ("loop", "kind"),
    [
        (loops.running_count, FaultKind.WEIGHTS),
        (loops.clip_each, FaultKind.CLIP_EACH),
        (loops.clip_twice, FaultKind.CLIP_TWICE),
        (loops.leftover, FaultKind.LEFTOVER),
        (loops.zero_each, FaultKind.LOST),
        (loops.never_zero, FaultKind.STALE),
    ],
    ids=lambda value: getattr(value, "__name__", None) or value.name,
)
def test_other_faults(loop, kind):
    monitor, messages = follow(loop)
    assert kind in monitor.faults, monitor.faults
    assert len(messages) == len(monitor.faults)


def test_counts_given_by_the_user():
    def loop(model, microbatches, optimizer):
        for window in loops.windows(microbatches, 2):
            for inputs, targets in window:
                valid = targets != -100
                monitor.add_count(valid.sum())
                losses = functional.cross_entropy(model(inputs), targets.clamp(min=0), reduction="none")
                (losses[valid].mean() / 2).backward()
            optimizer.step()
            optimizer.zero_grad()

    toy = classification_toy((2, 5, 3, 1))
    optimizer = torch.optim.SGD(toy.model.parameters(), lr=0.1)
    with pytest.warns(AccumulationWarning, match="2/7, 5/7"), watch(optimizer, toy.model) as monitor:
        loop(toy.model, toy.microbatches, optimizer)
    seen = []
    with watch(optimizer, toy.model, count=lambda inputs: seen.append(1) or len(inputs), warn=False) as monitor:
        loop(toy.model, toy.microbatches, optimizer)
    assert len(seen) == 4


class Syncs(TorchDispatchMode):
    """Counts what makes a GPU wait for its numbers."""

    def __init__(self):
        super().__init__()
        self.seen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name()
        self.seen += any(part in name for part in ("_local_scalar_dense", "is_nonzero", "nonzero", "equal"))
        return func(*args, **(kwargs or {}))


def test_no_microbatch_waits_for_the_device():
    toy = classification_toy()
    optimizer = torch.optim.SGD(toy.model.parameters(), lr=0.1)
    with Syncs() as syncs:
        torch.ones(1).item()
    assert syncs.seen == 1
    with watch(optimizer, toy.model, count=lambda inputs: inputs[:, 0].numel(), every=1000, warn=False) as monitor:
        with Syncs() as syncs:
            for _ in range(3):
                for window in loops.windows(toy.microbatches):
                    for inputs, targets in window:
                        total = (targets != -100).sum() + 1
                        loss = functional.cross_entropy(toy.model(inputs), targets, reduction="sum")
                        (loss / total).backward()
                    torch.nn.utils.clip_grad_norm_(toy.model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
        assert syncs.seen == 0
        assert monitor.windows == []
    assert len(monitor.windows) == 9


@pytest.mark.parametrize("weight", ["count", "equal"])
def test_steps_with_a_closure(weight):
    def loop(model, microbatches, optimizer):
        for window in loops.windows(microbatches):

            def closure(window=window):
                optimizer.zero_grad()
                for mb in window:
                    if weight == "count":
                        (loops.loss_sum(model, mb) / loops.total(window)).backward()
                    else:
                        (loops.loss_mean(model, mb) / len(window)).backward()

            optimizer.step(closure)

    monitor, messages = follow(loop)
    assert [w.counts for w in monitor.windows][:3] == [[2, 5, 0], [3, 1, 4], [6]]
    assert set(monitor.faults) == (set() if weight == "count" else {FaultKind.EQUAL_WEIGHT}), messages


def test_lbfgs_evaluates_its_closure_several_times():
    toy = classification_toy((2, 5))
    optimizer = torch.optim.LBFGS(toy.model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = sum(loops.loss_sum(toy.model, mb) for mb in toy.microbatches) / 7
        loss.backward()
        return loss

    with watch(optimizer, toy.model) as monitor:
        optimizer.step(closure)
        optimizer.step(closure)
    assert (monitor.steps, monitor.faults) == (2, {})


def test_optimizers_around_torchs_own():
    class Wrapper:
        def __init__(self, optimizer):
            self.optimizer = optimizer
            self.param_groups = optimizer.param_groups

    toy = classification_toy()
    optimizer = torch.optim.SGD(toy.model.parameters(), lr=0.1)
    with pytest.warns(AccumulationWarning), watch(Wrapper(optimizer), toy.model) as monitor:
        naive_cross_entropy(toy.model, toy.microbatches, optimizer)
    assert monitor.steps == 3
    with pytest.raises(TypeError, match="optimizer of torch"):
        watch(object(), toy.model)


def test_reading_the_graph():
    x = torch.randn(4, 3, requires_grad=True)
    y = torch.tensor([0, -100, 1, 2])
    entry = read_graph(functional.cross_entropy(x, y) / 4 * 3)
    assert (entry.reduction, float(entry.count)) == ("mean", 3)
    assert [float(f) for f in entry.factors] == [3, 0.25]
    assert read_graph(functional.mse_loss(x, torch.zeros(4, 3), reduction="sum")).reduction == "sum"
    assert read_graph(x.exp().mean()).count == 12
    assert read_graph(x.exp().sum()).reduction == "unknown"
    assert read_graph(torch.ones(1)).reduction == "unknown"


def test_exports(tmp_path):
    monitor, _ = follow(naive_cross_entropy)
    monitor.write_json(tmp_path / "run.json")
    data = json.loads((tmp_path / "run.json").read_text())
    assert data["steps"] == 6
    assert data["windows"][0]["counts"] == [2, 5, 0]
    written = []

    class Writer:
        def add_scalar(self, *args):
            written.append(args)

    monitor.write_tensorboard(Writer())
    assert ("accumlint/targets", 7, 1) in written
    least, most = (next(v for n, v, step in written if (n, step) == (f"accumlint/weight/{which}", 2))
                   for which in ("least", "most"))  # fmt: skip
    assert (least, most) == pytest.approx(((1 / 3) / (4 / 8), (1 / 3) / (1 / 8)))


def test_the_hooks_are_removed_even_after_an_error():
    backward, clip = torch.autograd.backward, torch.nn.utils.clip_grad_norm_
    toy = classification_toy()
    optimizer = torch.optim.SGD(toy.model.parameters(), lr=0.1)
    with pytest.raises(KeyError), watch(optimizer, toy.model, count=lambda x: 1):
        raise KeyError
    assert (torch.autograd.backward, torch.nn.utils.clip_grad_norm_) == (backward, clip)
    assert not optimizer._optimizer_step_pre_hooks
    assert not toy.model._forward_pre_hooks
