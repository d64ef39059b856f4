"""Runs distributed loops on two real gloo ranks and compares each update with the full batch over both ranks."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import tempfile
import warnings
from typing import Any

import torch

Job = tuple[str, str, dict[str, Any]]  # source, entry, features
PATTERNS = ((4, 1, 0, 2, 1), (0, 0, 1, 0, 3))  # targets an example: never the same on two ranks, one window without any
SETTINGS = ((2, 5), (3, 6))  # K, microbatches of each rank


def available() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_gloo_available())


def differences_on_ranks(jobs: list[Job], world: int = 2) -> list[list[str]]:
    """For each job, why it is not the full batch over all ranks (empty: it is). One start of `world` processes."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (world, folder, jobs), nprocs=world)
        answers = [json.loads((pathlib.Path(folder) / f"rank{rank}.json").read_text()) for rank in range(world)]
    return [[f"rank {rank}: {line}" for rank in range(world) for line in answers[rank][j]] for j in range(len(jobs))]


def _rank(rank: int, world: int, folder: str, jobs: list[Job]) -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
        MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", ACCELERATE_USE_CPU="true",
    )  # fmt: skip
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=60)
    )
    try:
        answers = [_differences(rank, world, job) for job in jobs]
    finally:
        torch.distributed.destroy_process_group()
    (pathlib.Path(folder) / f"rank{rank}.json").write_text(json.dumps(answers))
    # Now and then torch 2.13 aborts in its own threads when the interpreter ends ("terminate called without an active
    # exception"), with the group destroyed and the answer written. So end without that; a rank that fails earlier
    # still raises in the parent, which also reads every rank's answer.
    os._exit(0)


def _differences(rank: int, world: int, job: Job) -> list[str]:
    from tests.generated.execute import Setting, run
    from tests.generated.judge import compare, stepped_windows

    source, entry, features = job
    features = {**features, "pattern": PATTERNS[rank]}
    found = []
    for k, total in SETTINGS:
        setting = Setting(k, total, seed=1 + 10 * rank)
        if features.get("needs") == "accelerate":
            _forget_accelerate()
        recorder, failure = None, ""
        try:
            recorder = run(source, entry, features, setting)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        mine = [] if recorder is None else stepped_windows(recorder)
        everyone: list[Any] = [None] * world
        torch.distributed.all_gather_object(everyone, mine)
        if recorder is None or len({len(windows) for windows in everyone}) != 1:
            found.append(f"K={k}: {failure or 'the ranks step differently often'}")
            continue
        windows = [
            (torch.stack([w[0] for w in same]).sum(0), sum(w[1] for w in same)) for same in zip(*everyone, strict=True)
        ]
        found += [f"K={k} total={total}: {line}" for line in compare(recorder, setting, features, windows)]
    return found


def _forget_accelerate() -> None:
    """An Accelerator keeps its state in the process; each program makes its own."""
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
