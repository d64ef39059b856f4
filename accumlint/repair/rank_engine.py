"""The prelude of a slice that runs on several ranks, after `slice_engine.py`: DDP, gloo, and sums over the ranks.

Its text runs in the harness' workers, one a rank. `torch` is passed in; the process group is there already.
"""

from __future__ import annotations

from typing import Any

from accumlint.repair.slice_engine import SLICE_RANK, SLICE_RATE, Slice, SliceData


class RankSlice(Slice):
    """One rank: its own data, the same parameters, gradients averaged by DDP in a backward that synchronises.

    With `summing`, gradients are summed over the ranks and not averaged.
    """

    def __init__(self, torch: Any, counts: list[int], sites: int, seed: int, rank: int, summing: bool) -> None:
        super().__init__(torch, counts, sites, seed)
        self.data = SliceData(torch, counts, sites, seed + SLICE_RANK * rank)
        self.model = torch.nn.parallel.DistributedDataParallel(rank_module(torch, self))
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, lr=SLICE_RATE)
        self.by = float(torch.distributed.get_world_size()) if summing else 1.0

    def backward(self, terms: list[tuple[int, int, str, float]], scaled: bool = False, synced: bool = True) -> None:
        """Runs on every rank, with no term as well: the others wait for it."""
        self.scaled |= scaled
        by = self.by * (self.factor if scaled else 1.0)
        if synced:
            (self.model(terms) * by).backward()
            return
        with self.model.no_sync():
            (self.model(terms) * by).backward()

    def collect(self, value: float | None, kind: str) -> None:
        """The sum that the script makes; its number is in the factors that follow, from the interpreter."""
        total = self.torch.tensor(0.0 if value is None else value, dtype=self.torch.float64)
        self.torch.distributed.all_reduce(total)


def rank_module(torch: Any, owner: Slice) -> Any:
    """The parameters of a slice as a module whose forward computes the loss of some terms."""

    class Losses(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ParameterList(owner.parameters)

        def forward(self, terms: list[tuple[int, int, str, float]]) -> Any:
            parts = list(self.parts)
            nothing = sum((part * 0.0).sum() for part in parts)
            total = owner.loss(parts, terms)
            return nothing if total is None else total + nothing

    return Losses()
