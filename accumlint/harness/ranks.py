"""`accumcheck` on several ranks: gloo processes on loopback, torch's own DDP or FSDP2, nothing home-made.

Each rank runs the loop on its own microbatches and records what its optimizer used; this process then holds the
gradients against the full batch over all ranks, and the ranks against each other.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from accumlint.harness import errors
from accumlint.harness.check import (
    Train,
    infer_accumulation_steps,
    judge_coupling,
    naive_loop,
    run_loop,
)
from accumlint.harness.errors import ControlFailedError, HarnessError, RanksError, TrainingLoopError
from accumlint.harness.inputs import check_reference, find_untested, get_used_dtype, read_counts
from accumlint.harness.judge import Expectation, judge
from accumlint.harness.precision import choose_tolerance
from accumlint.harness.recorder import Recorder
from accumlint.harness.reference import Count, LossSum
from accumlint.harness.report import Fault, FaultKind, Report
from accumlint.harness.tolerances import relative_error
from accumlint.harness.twin import MakeOptimizer, Twin, cast_data, find_coupling, make_optimizer, make_twin

WRAPS = ("ddp", "fsdp2", "none")

_SAYS_WHERE = 0.9
"""After this share of the time a rank that still runs writes down where it is."""
_INHERITED: list[Any] = []
"""In a rank: the process groups of the process that it was forked from. They stay until it ends."""


@dataclass
class _Plan:
    """What a rank needs to know."""

    train: Train
    model: torch.nn.Module
    microbatches: Sequence[Sequence[Any]]
    loss_sum: LossSum
    count: Count
    optimizer: MakeOptimizer | torch.optim.Optimizer | None
    accumulation_steps: int | None
    dtype: torch.dtype | None
    seed: int
    timeout: float
    max_backwards: int
    wrap: str
    folder: str


def check_ranks(
    train: Train,
    model: torch.nn.Module,
    microbatches: Sequence[Sequence[Any]],
    *,
    loss_sum: LossSum,
    count: Count,
    optimizer: MakeOptimizer | torch.optim.Optimizer | None = None,
    accumulation_steps: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    clip_value: float | None = None,
    dtype: torch.dtype | None = torch.float64,
    tolerance: float | None = None,
    merge: Callable[[Sequence[Any]], Any] | None = None,
    seed: int = 0,
    timeout: float | None = 120.0,
    max_backwards: int | None = None,
    world_size: int = 2,
    wrap: str = "ddp",
) -> Report:
    """Run `train(model, microbatches[rank], optimizer)` on `world_size` processes; see `accumcheck`.

    The model that `train` gets is wrapped: "ddp", "fsdp2" (`fully_shard`), or "none" if the loop reduces gradients
    itself. `torch.distributed` is initialised with gloo. All ranks must have equally many microbatches.
    """
    if wrap not in WRAPS:
        raise ValueError(f"wrap must be one of {', '.join(WRAPS)}, not {wrap!r}")
    if len(microbatches) != world_size:
        raise HarnessError(f"with world_size={world_size}, microbatches holds one list a rank; got {len(microbatches)}")
    sizes = tuple(len(own) for own in microbatches)
    if len(set(sizes)) > 1:
        raise HarnessError(f"the ranks have {sizes} microbatches; give each rank equally many")
    data = [cast_data(microbatch, dtype) for own in microbatches for microbatch in own]
    counts = read_counts(data, count)
    twin = make_twin(model, None, dtype)
    reference = check_reference(twin, data, counts, loss_sum, count)
    with tempfile.TemporaryDirectory(prefix="accumlint-ranks-") as folder:
        plan = _Plan(
            train, model, microbatches, loss_sum, count, optimizer, accumulation_steps, dtype, seed,
            timeout or 3600.0, max_backwards or 10_000, wrap, folder,
        )  # fmt: skip
        loop, control = _run_all(plan, world_size)
    assumptions: list[str] = []
    steps = accumulation_steps or infer_accumulation_steps(loop[0], sizes[0], assumptions)
    used = get_used_dtype(twin.model)
    limit = choose_tolerance(
        used, tolerance, (reference.narrowest, *(record.narrowest for record in loop)),
        integer_division=any(record.integer_division for record in loop), assumptions=assumptions,
    )  # fmt: skip
    clip = next((c for step in loop[0].steps for c in step.clips if c.function == "clip_grad_norm_"), None)
    if max_norm is None and clip is not None:
        max_norm, norm_type = clip.limit, clip.norm_type
        assumptions.append(f"clip threshold {max_norm:g} read off the loop")
    expectation = Expectation(data, counts, loss_sum, count, steps, max_norm, norm_type, clip_value, limit, sizes)
    judged = judge(loop[0], twin.model, expectation)
    control_error = max(window.error for window in judge(control[0], twin.model, expectation).windows)
    if not control_error > 10 * limit:
        raise ControlFailedError(f"equal weighting differs from the full batch by {control_error:.1e} only")
    faults = _compare_ranks(loop, limit) + judged.faults
    untested: list[str] = []
    faults += judge_coupling(*find_coupling(twin, data, loss_sum, count, merge), tolerance=limit, untested=untested)
    untested += find_untested(counts, steps * world_size) if sizes[0] % steps else ["no partial window"]
    if all(any(counts[k] for k in window if expectation.rank_of(k) == r) for window in expectation.windows
           for r in range(world_size)):  # fmt: skip
        untested.append("no rank was without a valid target for a whole window")
    return Report(
        equivalent=not faults,
        faults=tuple(faults),
        windows=judged.windows,
        counts=tuple(counts),
        accumulation_steps=steps,
        steps=len(loop[0].steps),
        expected_steps=len(expectation.windows),
        clips=sum(len(step.clips) for step in loop[0].steps),
        tolerance=limit,
        dtype=str(used).removeprefix("torch."),
        control_error=control_error,
        assumptions=tuple(assumptions),
        limits=(*twin.limits, *judged.notes, "on several ranks gradients are compared, parameters are not"),
        untested=tuple(untested),
        world_size=world_size,
    )


def _compare_ranks(records: Sequence[Recorder], tolerance: float) -> list[Fault]:
    """Compare what the optimizers used: replicas with different gradients drift apart silently."""
    numbers = {len(record.steps) for record in records}
    if len(numbers) > 1:
        return [Fault(FaultKind.RANKS_DIFFER, f"the ranks make {sorted(numbers)} steps")]
    found = []
    for index, first in enumerate(records[0].steps):
        error = max(relative_error(record.steps[index].gradient, first.gradient) for record in records[1:])
        if error > tolerance:
            found.append((index, error))
    if not found:
        return []
    text = f"by {found[0][1]:.1e} at step {found[0][0] + 1}: the replicas drift apart"
    return [Fault(FaultKind.RANKS_DIFFER, text, tuple(index for index, _ in found))]


def _run_all(plan: _Plan, world_size: int) -> tuple[list[Recorder], list[Recorder]]:
    """Start the ranks, wait for all, and return their records of the loop and of the control."""
    # A forked rank sees lambdas and nested functions; a spawned one needs everything to be picklable.
    method = "fork" if sys.platform.startswith("linux") and not torch.cuda.is_initialized() else "spawn"
    context: Any = multiprocessing.get_context(method)
    processes = [
        context.Process(target=_rank_main, args=(rank, world_size, plan), daemon=True) for rank in range(world_size)
    ]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about forking beside threads; ranks use one thread
            for process in processes:
                process.start()
    except Exception as error:
        _stop(processes)
        raise RanksError(f"a rank cannot be started: {error}") from error
    try:
        hung = _wait(processes, plan)
    finally:
        _stop(processes)
    results = [_read(Path(plan.folder) / f"rank{rank}.pt") for rank in range(world_size)]
    failed = [(rank, result) for rank, result in enumerate(results) if result is not None and "error" in result]
    if failed:
        rank, result = min(failed, key=lambda item: item[1]["time"])  # what the others say follows from the first
        kind = getattr(errors, result["type"], TrainingLoopError)
        raise kind(f"on rank {rank}: {result['error']}")
    if hung:
        places = "".join(f"; rank {rank} is at {_place(plan, rank)}" for rank in range(world_size))
        raise RanksError(
            f"the ranks did not end within {plan.timeout:g} s: one waits for a collective call that another never makes"
            f"{places}"
        )
    dead = [rank for rank, result in enumerate(results) if result is None]
    if dead:
        raise RanksError(f"rank {dead[0]} died (exit code {processes[dead[0]].exitcode})")
    return [r["loop"] for r in results if r], [r["control"] for r in results if r]


def _wait(processes: Sequence[Any], plan: _Plan) -> bool:
    """Wait until all have ended; after a failure the others get two seconds. True if the time was over."""
    deadline = time.monotonic() + plan.timeout
    grace = None
    while any(process.is_alive() for process in processes):
        now = time.monotonic()
        if grace is None and any(process.exitcode not in (None, 0) for process in processes):
            grace = now + 2.0
        if now > deadline or (grace is not None and now > grace):
            return grace is None
        time.sleep(0.02)
    return False


def _stop(processes: Sequence[Any]) -> None:
    for process in processes:
        if process.pid is not None:
            process.kill()
            process.join()


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    result: dict[str, Any] = torch.load(path, weights_only=False)
    return result


def _stack_file(plan: _Plan, rank: int) -> Path:
    return Path(plan.folder) / f"rank{rank}.stack"


def _place(plan: _Plan, rank: int) -> str:
    """Where a rank that did not end was: the innermost line, in any of its threads, that is the user's own."""
    path = _stack_file(plan, rank)
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    calls = [f"{file}:{line}" for file, line in re.findall(r'File "(.+)", line (\d+) in ', text)]
    others = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)), os.path.dirname(os.__file__))
    own = [call for call in calls if not call.startswith(others)]
    return (own or calls or ["its end"])[0]


def _rank_main(rank: int, world_size: int, plan: _Plan) -> None:
    watch = _stack_file(plan, rank).open("w", encoding="utf-8")
    faulthandler.dump_traceback_later(_SAYS_WHERE * plan.timeout, file=watch)
    torch.set_num_threads(1)
    target = Path(plan.folder) / f"rank{rank}.pt"
    code = 0
    try:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
        _INHERITED.extend(_leave_inherited_groups())
        store = f"file://{plan.folder}/store"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world_size)
        steps = plan.accumulation_steps or len(plan.microbatches[rank])
        naive = naive_loop(plan.loss_sum, plan.count, steps)
        outcome: dict[str, Any] = {
            "loop": _run_rank(plan, plan.train, rank),
            "control": _run_rank(plan, naive, rank),
        }
    except BaseException as error:
        code = 1
        text = str(error) if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"
        outcome = {"error": text, "type": type(error).__name__, "time": time.time(), "trace": traceback.format_exc()}
    temporary = target.with_suffix(".part")
    torch.save(outcome, temporary)
    temporary.rename(target)
    if code == 0:
        dist.barrier()
    sys.stdout.flush()
    os._exit(code)  # no clean-up of what was forked from the parent


def _leave_inherited_groups() -> list[Any]:
    """Leave the process groups that came along in the fork, and return them: who frees one joins its threads, which
    a fork does not copy; that hangs or aborts."""
    if not dist.is_initialized():
        return []
    groups = [*dist.distributed_c10d._world.pg_map.items()]
    dist.destroy_process_group()
    return groups


def _run_rank(plan: _Plan, loop: Callable[..., Any], rank: int) -> Recorder:
    given = plan.optimizer if isinstance(plan.optimizer, torch.optim.Optimizer) else None
    if given is not None and plan.wrap == "fsdp2":
        raise HarnessError("with FSDP2, give the optimizer as a function of the (sharded) parameters")
    twin = make_twin(plan.model, given, plan.dtype)
    inner = twin.model
    if plan.wrap == "ddp":
        twin = Twin(torch.nn.parallel.DistributedDataParallel(inner), twin.optimizer)
    elif plan.wrap == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(inner, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    if given is None:
        twin.optimizer = make_optimizer(plan.optimizer, inner)
    recorder = Recorder(inner, max_backwards=plan.max_backwards)
    recorder.copies = False
    data = [cast_data(microbatch, plan.dtype) for microbatch in plan.microbatches[rank]]
    run_loop(loop, recorder, twin, data, plan.seed, plan.timeout)
    recorder.detach()
    return recorder
