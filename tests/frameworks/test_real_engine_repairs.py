"""Repaired loops of DeepSpeed engines under DeepSpeed itself, in fp32: off before, the full-batch update after."""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Any

import pytest

pytest.importorskip("torch")
os.environ.setdefault("DS_ACCELERATOR", "cpu")
pytest.importorskip("deepspeed", reason="the extra `deepspeed` is not installed, or DeepSpeed does not install here")

import torch
from problem import K, check
from torch.nn import functional

import accumlint
from accumlint.harness import FaultKind
from accumlint.harness.frameworks import _ensure_group

pytestmark = pytest.mark.frameworks
BUILD = 900.0  # seconds: its first loop on a machine compiles an extension
CONFIG = {"gradient_accumulation_steps": K, "gradient_clipping": 0.0, "train_micro_batch_size_per_gpu": 1}
LOOP = """\
import deepspeed
import torch.nn.functional as F


def train(model, loader, optimizer, config, epochs=1):
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for epoch in range(epochs):
        for inputs, targets in loader:
            loss = F.cross_entropy(engine(inputs), targets, ignore_index=-100)
            engine.backward(loss)
            engine.step()
"""
RATE = 0.1


def compiled(text: str) -> Any:
    space: dict[str, Any] = {"__name__": "repaired"}
    exec(compile(text, "repaired.py", "exec", dont_inherit=True), space)
    return space["train"]


def repaired() -> str:
    done = accumlint.repair_source(LOOP, unsafe=True)  # on a busy machine gloo may not answer in time
    assert done.changed, done.result.findings
    return done.source


@pytest.mark.parametrize("text", [LOOP, ""], ids=["original", "repaired"])
def test_on_one_rank(text: str) -> None:
    train = compiled(text or repaired())

    def run(model, microbatches, optimizer):
        _ensure_group()
        train(model, microbatches[:6], optimizer, CONFIG)

    report = check(run, dtype=torch.float32, timeout=BUILD)
    if text:
        assert FaultKind.EQUAL_WEIGHT in {fault.kind for fault in report.faults}
    else:
        assert [window.error < report.tolerance for window in report.windows] == [True, True]
        assert {fault.kind for fault in report.faults} == {FaultKind.BOUNDARY}  # the seventh is not used


@pytest.mark.parametrize("text", [LOOP, ""], ids=["original", "repaired"])
def test_on_two_ranks_and_over_the_ends_of_passes(text: str) -> None:
    """Four microbatches a pass and windows of three: the second window takes in the end of one pass and the next."""
    if not torch.distributed.is_gloo_available():
        pytest.skip("gloo is not available")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (folder, text or repaired()), nprocs=2)
        found = [torch.load(pathlib.Path(folder) / f"{rank}.pt") for rank in range(2)]
    assert torch.equal(found[0], found[1])
    error = float((found[0] - wanted()).norm() / (wanted() - weights()).norm())
    assert (error < 1e-5) is (text != LOOP), error


def weights() -> torch.Tensor:
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


def batches(rank: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Counts that differ between ranks and microbatches; the second rank has nothing in one of them."""
    generator = torch.Generator().manual_seed(1 + rank)
    found = []
    for valid in ((7, 1, 4, 2), (3, 0, 2, 6))[rank]:
        targets = torch.randint(0, 5, (8,), generator=generator)
        targets[valid:] = -100
        found.append((torch.randn(8, 4, generator=generator), targets))
    return found


def wanted() -> torch.Tensor:
    """Both windows of two passes as full batches of both ranks."""
    weight = weights()
    seen = [batches(rank) * 2 for rank in range(2)]
    for window in range(2):
        parts = [each[window * K + k] for each in seen for k in range(K)]
        x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        weight = weight.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(functional.cross_entropy(x @ weight.T, y), weight)
        weight = weight - RATE * gradient
    return weight.detach()


def _rank(rank: int, folder: str, text: str) -> None:
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    model = torch.nn.Linear(4, 5, bias=False)
    model.weight.data.copy_(weights())
    compiled(text)(model, batches(rank), torch.optim.SGD(model.parameters(), lr=RATE), CONFIG, 2)
    torch.save(model.weight.detach().clone(), pathlib.Path(folder) / f"{rank}.pt")
    torch.distributed.barrier()
    os._exit(0)
