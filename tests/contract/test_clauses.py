"""Each clause of the contract: a loop that breaks it, by the numbers, and one that keeps it."""

from __future__ import annotations

import textwrap
from fractions import Fraction

import pytest

from accumlint.analysis import judge_module
from accumlint.contract.verdict import Clause, Violation
from accumlint.reading.read import read_module

SETUP = """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

def train(net, data, args, opt=None):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 10)
    loader = DataLoader(data, batch_size=8{loader})
"""
MEAN = "F.cross_entropy(net(x), y)"
HALF = Fraction(1, 2)


def program(body: str, loader: str = "") -> str:
    return SETUP.format(loader=loader) + textwrap.indent(textwrap.dedent(body), "    ")


def violations(source: str) -> list[Violation]:
    return [v for each in judge_module(read_module(source, "snippet.py")) for v in each.violations]


def clauses(source: str) -> set[Clause]:
    return {violation.clause for violation in violations(source)}


def one(source: str, clause: Clause) -> Violation:
    (found,) = [violation for violation in violations(source) if violation.clause is clause]
    return found


def text_at(source: str, violation: Violation) -> str:
    module = read_module(source, "snippet.py")
    return source.splitlines()[module.syntax.span(violation.node).line - 1].strip()


def accumulate(loss: str = f"{MEAN} / 2", boundary: str = "(i + 1) % 2 == 0", before: str = "", after: str = "") -> str:
    """A loop over an enumerated loader; `before` runs each microbatch after its backward, `after` at the boundary."""
    lines = ["for i, (x, y) in enumerate(loader):", f"    ({loss}).backward()"]
    lines += [f"    {line}" for line in before.splitlines()]
    lines += [f"    if {boundary}:"]
    lines += [f"        {line}" for line in (after or "opt.step()\nopt.zero_grad()").splitlines()]
    return "\n".join(lines) + "\n"


FLUSH = "(i + 1) % 2 == 0 or i == len(loader) - 1"


# ----------------------------------------------------------------------------------------------------- weights


def test_equal_weights_over_ignored_targets() -> None:
    source = program(accumulate("F.cross_entropy(net(x), y, ignore_index=0) / 2", FLUSH))
    found = one(source, Clause.TARGET_WEIGHT)
    assert found.counts == (2, 5)  # the worked example
    assert found.weights == (HALF, HALF)
    assert found.actual == HALF
    assert (found.window, found.steps) == (2, 2)
    assert [each.reason for each in found.evidence] == ["targets equal to ignore_index are not counted"]
    assert text_at(source, found).endswith(".backward()")


def test_equal_weights_where_only_batches_can_be_short() -> None:
    found = one(program(accumulate(boundary=FLUSH)), Clause.BATCH_WEIGHT)
    assert found.weights == (HALF, HALF)
    assert "drops a short last batch" in found.evidence[0].reason
    assert not clauses(program(accumulate(boundary=FLUSH), ", drop_last=True")) & {
        Clause.BATCH_WEIGHT,
        Clause.TARGET_WEIGHT,
        Clause.UNPROVEN_WEIGHT,
    }


def test_equal_weights_of_which_nothing_is_known() -> None:
    source = program(
        f"""
        for step in range(10):
            opt.zero_grad()
            for micro in range(args.accum):
                x, y = source.get_batch()
                ({MEAN} / args.accum).backward()
            opt.step()
        """
    )
    found = one(source, Clause.UNPROVEN_WEIGHT)
    assert found.steps == 3
    assert found.weights == (Fraction(1, 3),) * 3
    assert found.divisor == "args.accum"


def test_targets_weigh_equally_is_right() -> None:
    source = program(
        """
        it = iter(loader)
        for step in range(10):
            window = [next(it) for _ in range(2)]
            total = sum((y != -100).sum() for _, y in window)
            for x, y in window:
                loss = F.cross_entropy(net(x), y, ignore_index=-100, reduction="sum")
                (loss / total).backward()
            opt.step()
            opt.zero_grad()
        """
    )
    assert clauses(source) == set()


def test_means_that_are_summed() -> None:
    found = one(program(accumulate(MEAN, "(i + 1) % args.accum == 0")), Clause.NO_DIVISION)
    assert found.actual == 1
    assert found.expected == Fraction(1, 3)
    assert found.divisor == "args.accum"


def test_no_division_excludes_equal_weight() -> None:
    source = program(accumulate("F.cross_entropy(net(x), y, ignore_index=0)", "(i + 1) % args.accum == 0"))
    assert Clause.NO_DIVISION in clauses(source)
    assert not clauses(source) & {Clause.TARGET_WEIGHT, Clause.BATCH_WEIGHT, Clause.UNPROVEN_WEIGHT}


def test_divided_twice_by_hand() -> None:
    source = program(
        f"""
        for i, (x, y) in enumerate(loader):
            loss = {MEAN}
            loss = loss / args.accum
            (loss / args.accum).backward()
            if (i + 1) % args.accum == 0:
                opt.step()
                opt.zero_grad()
        """
    )
    found = one(source, Clause.DIVIDED_TWICE)
    assert found.actual == Fraction(1, 9)
    assert found.expected == Fraction(1, 3)
    assert found.times == 2
    assert found.detail == "by hand"


def test_a_partial_window_with_the_divisor_of_a_whole_one() -> None:
    found = one(program(accumulate(f"{MEAN} / 4", FLUSH.replace("2", "4"))), Clause.PARTIAL_DIVISOR)
    assert found.actual == HALF  # two of four microbatches
    assert found.expected == 1
    assert found.window == 2


# ------------------------------------------------------------------------------------------ clip, step, clear, clocks

CLIP = "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)"


def test_a_clip_for_every_microbatch() -> None:
    source = program(accumulate(before=CLIP))
    found = one(source, Clause.CLIP_COUNT)
    assert found.times == 2
    assert text_at(source, found) == CLIP
    assert Clause.CLIP_COUNT not in clauses(program(accumulate(after=f"{CLIP}\nopt.step()\nopt.zero_grad()")))


def test_a_clip_of_scaled_gradients() -> None:
    scaler = 'scaler = torch.amp.GradScaler("cuda")\n'
    loop = accumulate(after="{}scaler.step(opt)\nscaler.update()\nopt.zero_grad()").replace(
        f"({MEAN} / 2).backward()", f"scaler.scale({MEAN} / 2).backward()"
    )
    bad, good = (
        program(scaler + loop.format(f"{CLIP}\n        ")),
        program(scaler + loop.format(f"scaler.unscale_(opt)\n        {CLIP}\n        ")),
    )
    assert text_at(bad, one(bad, Clause.CLIP_SCALED)) == CLIP
    assert not clauses(good) & {Clause.CLIP_SCALED, Clause.CLIP_COUNT, Clause.SCALER}


def test_a_step_for_every_microbatch() -> None:
    source = program(accumulate(before="opt.step()", after="opt.zero_grad()"))
    found = one(source, Clause.STEP_COUNT)
    assert text_at(source, found) == "opt.step()"
    assert found.times == 2
    plain = program(f"for x, y in loader:\n    {MEAN}.backward()\n    opt.step()\n    opt.zero_grad()\n")
    assert clauses(plain) == set()


def test_cleared_inside_the_window() -> None:
    source = program(
        f"""
        for i, (x, y) in enumerate(loader):
            opt.zero_grad()
            ({MEAN} / 2).backward()
            if (i + 1) % 2 == 0:
                opt.step()
        """
    )
    found = one(source, Clause.CLEARED_INSIDE)
    assert found.lost == 1
    assert text_at(source, found) == "opt.zero_grad()"


def test_never_cleared() -> None:
    source = program(accumulate(after="opt.step()"))
    found = one(source, Clause.NEVER_CLEARED)
    assert found.lost == 2
    assert text_at(source, found) == "opt.step()"


@pytest.mark.parametrize(
    "clear",
    ["opt.zero_grad(set_to_none=True)", "net.zero_grad()", "for p in net.parameters():\n    p.grad = None"],
)
def test_each_way_to_clear_counts(clear: str) -> None:
    assert Clause.NEVER_CLEARED not in clauses(program(accumulate(after=f"opt.step()\n{clear}")))


def test_a_schedule_per_microbatch() -> None:
    source = program(accumulate(before="schedule.step()"))
    found = one(source, Clause.SCHEDULE)
    assert found.times == 2
    assert Clause.SCHEDULE not in clauses(program(accumulate(after="opt.step()\nschedule.step()\nopt.zero_grad()")))


def test_a_scaler_per_microbatch() -> None:
    source = program(
        f"""
        scaler = torch.amp.GradScaler("cuda")
        for i, (x, y) in enumerate(loader):
            scaler.scale({MEAN} / 2).backward()
            if (i + 1) % 2 == 0:
                scaler.step(opt)
                opt.zero_grad()
            scaler.update()
        """
    )
    assert text_at(source, one(source, Clause.SCALER)) == "scaler.update()"


# ------------------------------------------------------------------------------------------------------ boundaries


def test_the_partial_window_is_dropped() -> None:
    source = program(accumulate(f"{MEAN} / 4", "(i + 1) % 4 == 0"))
    found = one(source, Clause.LEFTOVER)
    assert found.lost == 2
    assert found.window == 4
    assert text_at(source, found) == "if (i + 1) % 4 == 0:"
    assert Clause.LEFTOVER not in clauses(program(accumulate(f"{MEAN} / 4", FLUSH.replace("2", "4"))))


def test_the_boundary_is_one_off() -> None:
    source = program(accumulate(boundary="i % 2 == 0"))
    found = one(source, Clause.OFF_BY_ONE)
    assert (found.actual, found.expected) == (1, 2)
    assert text_at(source, found) == "if i % 2 == 0:"


def test_synchronised_on_the_wrong_microbatch() -> None:
    text = """
        from torch.nn.parallel import DistributedDataParallel as DDP
        from contextlib import nullcontext
        ddp = DDP(net)
        for i, (x, y) in enumerate(loader):
            with {} if (i + 1) % 2 == 0 else {}:
                (F.cross_entropy(ddp(x), y) / 2).backward()
            if (i + 1) % 2 == 0:
                opt.step()
                opt.zero_grad()
        """
    assert Clause.SYNC in clauses(program(text.format("ddp.no_sync()", "nullcontext()")))
    assert Clause.SYNC not in clauses(program(text.format("nullcontext()", "ddp.no_sync()")))


def test_the_ranks() -> None:
    text = """
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel as DDP
        ddp = DDP(net)
        it = iter(loader)
        for step in range(10):
            window = [next(it) for _ in range(2)]
            total = sum((y != -100).sum() for _, y in window)
            dist.all_reduce(total)
            for x, y in window:
                loss = F.cross_entropy(ddp(x), y, ignore_index=-100, reduction="sum")
                (loss{} / total).backward()
            opt.step()
            opt.zero_grad()
        """
    found = one(program(text.format("")), Clause.WORLD_SIZE)
    assert found.expected == 1
    assert found.actual is not None
    assert found.actual < 1
    assert clauses(program(text.format(" * dist.get_world_size()"))) == set()
