"""Every torch row against torch itself: running it does what the row says.

A row with effects and without a record in `RUNS` must stand in `EXCLUDED`, with the reason.
"""

import builtins
import itertools
from typing import Any

import pytest
from torch_row_runs import CLEARED, MOVED, NORM, ONCE, ROWS, RUNS, TWICE

from accumlint.apis.language import Arithmetic, Row
from accumlint.apis.registry import load

torch = pytest.importorskip("torch")


EXCLUDED = {
    "torch.cpu.amp.GradScaler": "the same object with another device",
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler": "needs FSDP on an accelerator",
    "torch.distributed.fsdp.FullyShardedDataParallel": "FSDP1 needs an accelerator",
    "torch.distributed.fsdp.FullyShardedDataParallel.no_sync": "FSDP1 needs an accelerator",
    "torch.distributed.fsdp.FullyShardedDataParallel.clip_grad_norm_": "FSDP1 needs an accelerator",
    "torch.distributed.fsdp.fully_shard": "averaging shows only with two ranks: tests of the harness",
    "torch.distributed.fsdp.FSDPModule.set_requires_gradient_sync": "shows only with two ranks",
    "torch.distributed.fsdp.FSDPModule.set_requires_all_reduce": "shows only with two ranks",
    "torch.distributed.fsdp.FSDPModule.set_gradient_divide_factor": "shows only with two ranks",
    "torch.distributed.fsdp.FSDPModule.set_reduce_scatter_divide_factor": "deprecated; shows only with two ranks",
    "torch.distributed._functional_collectives.all_reduce": "private; returns an asynchronous tensor",
    "torch.nn.Module.cuda": "needs CUDA",
    "torch.Tensor.cuda": "needs CUDA",
    "torch.Tensor.pin_memory": "needs CUDA",
    "torch.Tensor.full_tensor": "a method of DTensor only",
    "torch.Tensor.to_local": "a method of DTensor only",
    "torch.Tensor.retain_grad": "returns nothing; the tensor stays what it is",
    "torch.Tensor.data_ptr": "an address: detached by nature",
    "torch.Tensor.masked_select": "as `x[mask]`: that fewer elements are counted is no value to compare",
    "torch.masked_select": "as torch.Tensor.masked_select",
    "torch.stack": "keeps the values of a list one by one; that they are stacked is not claimed",
    "torch.cat": "as torch.stack",
    "torch.concat": "as torch.stack",
    "torch.optim.lr_scheduler.LRScheduler": "abstract: its subclasses run",
}


def needs_run(row: Row) -> bool:
    """Rows with effects; `Forget` claims nothing, losses have their own tests, and our own names are not torch's."""
    claims = [effect for effect in row.does if type(effect).__name__ not in {"Forget", "Loss"}]
    is_loss = any(type(effect).__name__ == "Make" and "LOSS" in str(effect) for effect in row.does)
    return bool(claims) and not is_loss and not row.call.startswith("accumlint.")


def test_every_row_runs_or_says_why_not() -> None:
    run = [call for call, _, _ in RUNS]
    assert len(run) == len(set(run))
    assert set(run) <= set(ROWS)
    assert not set(run) & set(EXCLUDED)
    assert sorted(c for c, r in ROWS.items() if needs_run(r) and c not in run and c not in EXCLUDED) == []
    assert sorted(set(EXCLUDED) - set(ROWS)) == []


SHOWS = {
    TWICE: {"Backward", "ScaleGradients"},
    CLEARED: {"Clear"},
    MOVED: {"Step"},
    NORM: {"Clip"},
    f"{ONCE} and torch.allclose(w, start - 0.1 * before)": {"Unscale", "Step"},
}
"""What a claim about the gradient shows, by the names of effects."""


def test_the_claim_of_a_record_is_the_claim_of_its_row() -> None:
    """What a run shows is what the row lists: neither less nor something else."""
    for call, _, claim in RUNS:
        effects = {type(effect).__name__ for effect in ROWS[call].does}
        if claim in SHOWS:
            assert effects, call
            assert effects <= SHOWS[claim], call
        if effects & {"Backward", "Clear", "Step", "ScaleGradients"}:
            assert claim in SHOWS, call
        for effect in ROWS[call].does:
            if isinstance(effect, Arithmetic) and call != "torch.Tensor.neg":
                assert f" {effect.operator} " in claim, call


@pytest.fixture(scope="module")
def _one_rank(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A process group of one rank, for the rows that need one."""
    store = tmp_path_factory.mktemp("ranks") / "store"
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("_one_rank")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "code", "claim"), RUNS, ids=[call for call, _, _ in RUNS])
def test_row_does_what_it_says(call: str, code: str, claim: str) -> None:
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2, bias=False)
    x = torch.arange(1.0, 13.0).reshape(4, 3)
    w = net.weight
    namespace: dict[str, Any] = {
        "torch": torch,
        "DDP": torch.nn.parallel.DistributedDataParallel,
        "net": net,
        "w": w,
        "x": x,
        "a": torch.tensor([1.0, 2.0, 3.0, 4.0]),
        "b": torch.tensor([4.0, 2.0, 1.0, 3.0]),
        "loss": lambda: net(x).pow(2).mean(),
        "opt": torch.optim.SGD([w], lr=0.1),
        "scaler": torch.amp.GradScaler("cpu", init_scale=8.0),
        "data": torch.utils.data.TensorDataset(x),
    }
    namespace["loss"]().backward()
    assert w.grad is not None
    namespace |= {"before": w.grad.clone(), "start": w.detach().clone()}
    exec("import torch.utils.checkpoint, torch.optim.swa_utils\n" + code, namespace)
    assert eval(claim, namespace), claim


# ------------------------------------------------------------------------------------- Python's own iterators

ITERATIONS = [
    ("builtins.enumerate", "list(enumerate('ab', 1))", [(1, "a"), (2, "b")]),
    ("builtins.zip", "list(zip('ab', 'cd'))", [("a", "c"), ("b", "d")]),
    ("builtins.reversed", "list(reversed('ab'))", ["b", "a"]),
    ("itertools.islice", "list(itertools.islice('abcd', 2))", ["a", "b"]),
    ("itertools.islice", "list(itertools.islice('abcd', 1, 3))", ["b", "c"]),
    ("itertools.chain", "list(itertools.chain('a', 'b'))", ["a", "b"]),
    ("itertools.cycle", "list(itertools.islice(itertools.cycle('ab'), 3))", ["a", "b", "a"]),
    ("itertools.repeat", "list(itertools.repeat('a', 2))", ["a", "a"]),
]


@pytest.mark.parametrize(("call", "code", "value"), ITERATIONS)
def test_iterators(call: str, code: str, value: list[Any]) -> None:
    assert load().find(call) is not None
    assert eval(code, {"itertools": itertools, **vars(builtins)}) == value
