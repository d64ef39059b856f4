"""Repaired modules under Lightning's own Trainer: off before, the full-batch update after, on one rank and on two."""

from __future__ import annotations

import os
import pathlib
import socket
import tempfile
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning", reason="the extra `frameworks` is not installed")

import lightning.pytorch as lightning
import torch
from problem import CLIP, TOY, K, check
from torch.nn import functional

import accumlint
from accumlint.harness import lightning_loop

pytestmark = pytest.mark.frameworks
HEAD = """\
import lightning as L
import torch
import torch.nn.functional as F

K, CLIP = 3, 0.05


class Tagger(L.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.automatic_optimization = AUTOMATIC

    def forward(self, inputs):
        return self.net(inputs)

"""
AUTOMATIC = (
    HEAD.replace("= AUTOMATIC", "= True")
    + """\
    def training_step(self, batch, batch_idx):
        loss = F.cross_entropy(self(batch[0]), batch[1], ignore_index=-100)
        return loss


def trainer():
    return L.Trainer(accumulate_grad_batches=K, gradient_clip_val=CLIP)
"""
)
MANUAL = (
    HEAD.replace("= AUTOMATIC", "= False")
    + """\
    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        loss = F.cross_entropy(self(batch[0]), batch[1], ignore_index=-100)
        self.manual_backward(loss / 3)
        if (batch_idx + 1) % 3 == 0:
            self.clip_gradients(optimizer, gradient_clip_val=CLIP)
            optimizer.step()
            optimizer.zero_grad()
"""
)
BOTH = pytest.mark.parametrize("text", [AUTOMATIC, MANUAL], ids=["automatic", "manual"])


def module_of(text: str) -> Any:
    space: dict[str, Any] = {"__name__": "repaired"}
    exec(compile(text, "repaired.py", "exec", dont_inherit=True), space)
    return space["Tagger"]


def options_of(text: str) -> dict[str, float]:
    return {"accumulate_grad_batches": K, "gradient_clip_val": CLIP} if "_optimization = True" in text else {}


def repaired(text: str) -> str:
    done = accumlint.repair_source(text, unsafe=True)  # on a busy machine gloo may not answer in time
    assert done.changed, done.result.findings
    return done.source


@BOTH
def test_on_one_rank(text: str) -> None:
    loop = lightning_loop(**options_of(text))
    assert not check(loop, module_of(text)(TOY.model)).equivalent
    report = check(loop, module_of(repaired(text))(TOY.model))
    assert report.equivalent, str(report)
    assert report.clips == 3


@BOTH
def test_on_two_ranks(text: str) -> None:
    """Five microbatches a rank and windows of three: a short last window, and a rank without a target in one."""
    if not torch.distributed.is_gloo_available():
        pytest.skip("gloo is not available")
    for each, right in ((text, False), (repaired(text), True)):
        with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
            free.close()
            torch.multiprocessing.spawn(_rank, (folder, port, each, options_of(text)), nprocs=2)
            found = [torch.load(pathlib.Path(folder) / f"{rank}.pt") for rank in range(2)]
        assert torch.equal(found[0], found[1])
        error = float((found[0] - wanted()).norm() / (wanted() - weights()).norm())
        assert (error < 1e-9) is right, error


RATE = 0.1


def weights() -> torch.Tensor:
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def batches(rank: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1 + rank)
    found = []
    for valid in ((7, 1, 4, 2, 0), (3, 0, 2, 6, 5))[rank]:
        targets = torch.randint(0, 5, (8,), generator=generator)
        targets[valid:] = -100
        found.append((torch.randn(8, 4, generator=generator, dtype=torch.float64), targets))
    return found


def wanted() -> torch.Tensor:
    """The windows as full batches of both ranks, each clipped."""
    weight, seen = weights(), [batches(rank) for rank in range(2)]
    for window in (range(3), range(3, 5)):
        parts = [each[k] for each in seen for k in window]
        x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        weight = weight.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(functional.cross_entropy(x @ weight.T, y), weight)
        weight = weight - RATE * gradient * min(1.0, CLIP / (float(gradient.norm()) + 1e-6))
    return weight.detach()


def _rank(rank: int, folder: str, port: str, text: str, options: dict[str, float]) -> None:
    torch.set_num_threads(1)
    os.environ.update(LOCAL_RANK=str(rank), NODE_RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    net = torch.nn.Linear(4, 5, bias=False, dtype=torch.float64)
    net.weight.data.copy_(weights())
    module = module_of(text)(net)
    module.configure_optimizers = lambda: torch.optim.SGD(net.parameters(), lr=RATE)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False,
        default_root_dir=folder, **options,
    )  # fmt: skip
    trainer.fit(module, torch.utils.data.DataLoader(batches(rank), batch_size=None))
    torch.save(net.weight.detach().clone(), pathlib.Path(folder) / f"{rank}.pt")
    torch.distributed.barrier()
    os._exit(0)
