"""Two gloo ranks: the right factor is world size over the all-reduced count; everything else is caught."""

from __future__ import annotations

import contextlib
import time

import pytest

torch = pytest.importorskip("torch")

import loops  # noqa: E402
import torch.distributed as dist  # noqa: E402

from accumlint.harness import FaultKind, accumcheck  # noqa: E402
from accumlint.harness.errors import EqualCountsError, HarnessError, RanksError, TrainingLoopError  # noqa: E402
from accumlint.harness.toys import classification_toy  # noqa: E402

pytestmark = [
    pytest.mark.xdist_group("ranks"),
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo"),
]
torch.set_num_threads(1)
W = 2
COUNTS = ((2, 5, 3, 1), (0, 0, 0, 8))  # rank 1 has no target in the first window


def check(loop, counts=COUNTS, steps=3, wrap="ddp", **options):
    toy = classification_toy([n for own in counts for n in own])
    per_rank = len(counts[0])
    microbatches = [toy.microbatches[i * per_rank : (i + 1) * per_rank] for i in range(len(counts))]
    return accumcheck(
        loop, toy.model, microbatches, loss_sum=toy.loss_sum, count=toy.count, accumulation_steps=steps,
        world_size=len(counts), wrap=wrap, timeout=60, **options,
    )  # fmt: skip


def reduced(n):
    total = torch.tensor(n, dtype=torch.float64)
    dist.all_reduce(total)
    return max(total.item(), 1.0)


def make(backward_divisor, finish=None, steps=3, sync=lambda position, length: position == length - 1, clip=None):
    def loop(model, microbatches, optimizer):
        for window in loops.windows(microbatches, steps):
            local = sum(loops.count(mb) for mb in window)
            total = reduced(local)
            optimizer.zero_grad()
            for position, mb in enumerate(window):
                quiet = hasattr(model, "no_sync") and not sync(position, len(window))
                with model.no_sync() if quiet else contextlib.nullcontext():
                    (loops.loss_sum(model, mb) / backward_divisor(mb, local, total, window)).backward()
            if finish is not None:
                loops.divide(model, finish(local, total))
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()

    return loop


precount = make(lambda mb, local, total, window: total / W)
deferred = make(lambda mb, local, total, window: 1, lambda local, total: total / W, clip=0.05)
no_world = make(lambda mb, local, total, window: total)
local_count = make(lambda mb, local, total, window: max(local, 1))
naive = make(lambda mb, local, total, window: max(loops.count(mb), 1) * len(window))
deferred_local = make(lambda mb, local, total, window: 1, lambda local, total: max(local, 1))
never_synced = make(lambda mb, local, total, window: total / W, sync=lambda position, length: False)
synced_each = make(lambda mb, local, total, window: total / W, sync=lambda position, length: True)


@pytest.mark.parametrize("loop", [precount, deferred, synced_each], ids=["precount", "deferred", "synced each"])
def test_right(loop):
    report = check(loop)
    assert report.equivalent, str(report)
    assert report.world_size == 2
    assert not [text for text in report.untested if "rank" in text]


UNEVEN = ((2, 5, 3, 1), (1, 7, 4, 8))


@pytest.mark.parametrize(
    ("loop", "kind", "counts"),
    [
        (no_world, FaultKind.WORLD_SIZE, COUNTS),
        (local_count, FaultKind.LOCAL_COUNT, UNEVEN),
        (naive, FaultKind.EQUAL_WEIGHT, UNEVEN),
        (deferred_local, FaultKind.RANKS_DIFFER, UNEVEN),
        (never_synced, FaultKind.RANKS_DIFFER, UNEVEN),
    ],
    ids=["no world", "local count", "naive", "deferred local", "never synced"],
)
def test_wrong(loop, kind, counts):
    report = check(loop, counts)
    assert not report.equivalent
    assert report.has(kind), str(report)


def gated(weight, clip=None):
    """FSDP2's way: gradients stay unreduced until the last microbatch of a window."""

    def loop(model, microbatches, optimizer):
        for window in loops.windows(microbatches, 3):
            local = sum(loops.count(mb) for mb in window)
            total = reduced(local)
            for position, mb in enumerate(window):
                model.set_requires_gradient_sync(position == len(window) - 1)
                (loops.loss_sum(model, mb) * weight(mb, local, total, window)).backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()

    return loop


@pytest.mark.parametrize("counts", [COUNTS, UNEVEN], ids=["a rank without targets", "uneven"])
@pytest.mark.parametrize(
    "loop",
    [precount, deferred, gated(lambda mb, local, total, window: W / total, clip=0.05)],
    ids=["precount", "deferred and clipped", "gated and clipped"],
)
def test_fsdp2(loop, counts):
    report = check(loop, counts, wrap="fsdp2")
    assert report.equivalent, str(report)
    assert report.clips == (0 if loop is precount else 2)


@pytest.mark.parametrize(
    ("loop", "kind"),
    [
        (no_world, FaultKind.WORLD_SIZE),
        (local_count, FaultKind.LOCAL_COUNT),
        (naive, FaultKind.EQUAL_WEIGHT),
        (gated(lambda mb, local, total, window: W / max(loops.count(mb), 1) / len(window) / W), FaultKind.EQUAL_WEIGHT),
    ],
    ids=["no world", "local count", "naive", "naive and gated"],
)
def test_fsdp2_wrong(loop, kind):
    report = check(loop, UNEVEN, wrap="fsdp2")
    assert report.has(kind), str(report)


def test_three_ranks():
    counts = ((2, 5, 3, 1), (0, 0, 0, 8), (4, 0, 6, 2))

    def loop(model, microbatches, optimizer):
        for window in loops.windows(microbatches, 3):
            total = reduced(sum(loops.count(mb) for mb in window))
            for mb in window:
                (loops.loss_sum(model, mb) * dist.get_world_size() / total).backward()
            optimizer.step()
            optimizer.zero_grad()

    report = check(loop, counts)
    assert report.equivalent, str(report)
    assert report.world_size == 3
    report = check(no_world, counts)
    assert report.has(FaultKind.WORLD_SIZE), str(report)
    assert "1/3 = 1/W" in str(report)


def test_options_reach_the_ranks():
    clipped = make(lambda mb, local, total, window: total / W, clip=0.05)
    assert check(clipped, max_norm=0.05).equivalent
    assert check(clipped, max_norm=0.01).has(FaultKind.CLIP_THRESHOLD)
    assert check(precount, clip_value=1e-4).has(FaultKind.CLIP_MISSING)
    with pytest.raises(HarnessError, match="more than 2 backward calls"):
        check(precount, max_backwards=2)
    with pytest.raises(HarnessError, match="merge"):
        check(precount, merge=lambda microbatches: 1 / 0)


def raises_on_one(model, microbatches, optimizer):
    if dist.get_rank() == 1:
        raise KeyError("boom")
    precount(model, microbatches, optimizer)


def test_failures_are_raised():
    with pytest.raises(TrainingLoopError, match=r"rank 1.*boom"):
        check(raises_on_one)
    with pytest.raises(EqualCountsError):
        check(precount, ((3, 3), (3, 0)), 2)
    toy = classification_toy()
    with pytest.raises(HarnessError, match="one list a rank"):
        accumcheck(precount, toy.model, toy.microbatches, loss_sum=toy.loss_sum, count=toy.count, world_size=2)


def test_a_rank_that_dies():
    def dies(model, microbatches, optimizer):
        import os

        if dist.get_rank() == 0:
            os._exit(9)
        reduced(1.0)

    with pytest.raises(HarnessError):
        check(dies)
    assert issubclass(RanksError, HarnessError)


def test_a_rank_that_waits_for_ever():
    def waits(model, microbatches, optimizer):
        if dist.get_rank() == 0:
            reduced(1.0)  # that rank 1 never makes
        else:
            time.sleep(60)

    toy = classification_toy([2, 5, 0, 8])
    microbatches = [toy.microbatches[:2], toy.microbatches[2:]]
    with pytest.raises(
        RanksError, match=r"within 6 s: .* rank 0 is at .*test_ranks\.py:\d+; rank 1 is at .*test_ranks\.py:\d+"
    ):
        accumcheck(
            waits, toy.model, microbatches, loss_sum=toy.loss_sum, count=toy.count, world_size=2, timeout=6,
            accumulation_steps=2,
        )  # fmt: skip


def test_a_process_group_of_the_parent():
    """A process that trains already, or a framework in it, has a group of its own: the ranks leave it alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.all_reduce(torch.ones(3))
        assert check(precount).equivalent
        dist.all_reduce(torch.ones(3))
        assert dist.get_world_size() == 1
    finally:
        dist.destroy_process_group()
