"""Drives scripts on several gloo ranks: each rank its own data, the reference the full batch over all of them.

    reports = drive_on_ranks([(text, "accelerate_scripts", "tokens")], world=2)      # one list of reports a job

A job names a module of this folder and a key of its `PROBLEMS`. With `world=1` the same runs in this process.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import socket
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from unittest import mock

import torch
from drive import Problem, Recorder, Report, drive

Job = tuple[str, str, str]  # the script's text, module of its problem, name of the problem there


class RankRecorder(Recorder):
    """The reference of a step is over the microbatches of all ranks; everything else is this rank's."""

    def reference(self, indices: list[int]) -> torch.Tensor:
        if torch.distributed.is_initialized():
            shown: list[list[int]] = [[]] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(shown, indices)
            indices = [index for each in shown for index in each]
        return super().reference(indices)


def drive_on_ranks(jobs: list[Job], world: int = 2) -> list[list[Report]]:
    """For each job what every rank reports. One start of `world` processes; a rank that dies is an error."""
    if world == 1:
        return [[_drive(0, 1, job)] for job in jobs]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (world, port, folder, jobs), nprocs=world)
        ranks = [pickle.loads((Path(folder) / f"rank{rank}").read_bytes()) for rank in range(world)]
    return [list(reports) for reports in zip(*ranks, strict=True)]


def _rank(rank: int, world: int, port: int, folder: str, jobs: list[Job]) -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo",
        GROUP_RANK="0", TORCHELASTIC_RUN_ID="tests",
    )  # fmt: skip
    torch.distributed.init_process_group("gloo")
    reports = [_drive(rank, world, job) for job in jobs]
    (Path(folder) / f"rank{rank}").write_bytes(pickle.dumps(reports))
    torch.distributed.barrier()
    os._exit(0)  # torch's own threads now and then abort while the interpreter ends


def _drive(rank: int, world: int, job: Job) -> Report:
    text, module, name = job

    def build() -> Problem:
        problem = import_module(module).PROBLEMS[name](world)
        torch.manual_seed(100 + rank)  # the problem is the same on every rank, what is drawn in the script is not
        return problem

    with mock.patch.dict(os.environ, ACCELERATE_USE_CPU="true"), _devices_on_cpu():
        _forget_accelerate()
        return drive(text, build, record=RankRecorder)


def _forget_accelerate() -> None:
    """An Accelerator keeps its state in the process; each script makes its own."""
    if importlib.util.find_spec("accelerate") is None:
        return
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


class _CpuDDP(torch.nn.parallel.DistributedDataParallel):
    """Takes the GPUs that a script names and uses none."""

    def __init__(self, module: torch.nn.Module, device_ids: object = None, **kwargs: object) -> None:
        super().__init__(module, **kwargs)


@contextlib.contextmanager
def _devices_on_cpu() -> Iterator[None]:
    """`x.to(rank)` leaves x where it is."""

    def staying(to: Callable[..., object]) -> Callable[..., object]:
        return lambda self, *args, **kwargs: self if isinstance(args[0], int) else to(self, *args, **kwargs)

    with contextlib.ExitStack() as stack:
        for owner in (torch.Tensor, torch.nn.Module):
            stack.enter_context(mock.patch.object(owner, "to", staying(owner.to)))
        stack.enter_context(mock.patch.object(torch.nn.parallel, "DistributedDataParallel", _CpuDDP))
        yield
