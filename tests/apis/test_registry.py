"""Look-ups by canonical name, through aliases, bases and patterns."""

from pathlib import Path

import pytest

from accumlint.apis.language import ClassRow, Const, OwnerAttr, PatternRow, Ranks, Rename, Role, Row
from accumlint.apis.registry import Registry, Table, TableError, load, load_for
from accumlint.reading.project import Project


def row(call: str, **more: object) -> Row:
    return Row(call, "", "x 1.0, y.py", (), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "call"),
    [
        ("torch.nn.modules.loss.CrossEntropyLoss", "torch.nn.CrossEntropyLoss"),
        ("torch.nn.MSELoss.forward", "torch.nn.MSELoss.__call__"),
        ("torch.optim.adamw.AdamW", "torch.optim.AdamW"),
        ("torch.optim.adamw.AdamW.zero_grad", "torch.optim.Optimizer.zero_grad"),
        ("torch.optim.Invented", "accumlint.AnyOptimizer"),
        ("torch.optim.Invented.step", "torch.optim.Optimizer.step"),
        ("torch.optim.lr_scheduler._LRScheduler.step", "torch.optim.lr_scheduler.LRScheduler.step"),
        ("torch.optim.lr_scheduler.Invented", "accumlint.AnyScheduler"),
        ("torch.cuda.amp.GradScaler.unscale_", "torch.amp.GradScaler.unscale_"),
        ("torch.GradScaler", "torch.amp.GradScaler"),
        ("torch.nn.utils.clip_grad.clip_grad_norm_", "torch.nn.utils.clip_grad_norm_"),
        ("torch.nn.parallel.distributed.DistributedDataParallel", "torch.nn.parallel.DistributedDataParallel"),
        ("torch.distributed.distributed_c10d.all_reduce", "torch.distributed.all_reduce"),
        ("accelerate.accelerator.Accelerator", "accelerate.Accelerator"),
        ("lightning.Fabric", "lightning.fabric.Fabric"),
        ("lightning_fabric.Fabric.backward", "lightning.fabric.Fabric.backward"),
        ("pytorch_lightning.Trainer", "lightning.pytorch.Trainer"),
        ("lightning.LightningModule.manual_backward", "lightning.pytorch.LightningModule.manual_backward"),
        ("transformers.trainer.Trainer", "transformers.Trainer"),
        ("transformers.optimization.get_cosine_schedule_with_warmup", "accumlint.AnySchedule"),
        ("util.misc.NativeScalerWithGradNormCount", "accumlint.NativeScalerWithGradNormCount"),
        ("enumerate", "builtins.enumerate"),
    ],
)
def test_finds(written: str, call: str) -> None:
    found = load().find(written)
    assert found is not None
    assert found.call == call


@pytest.mark.parametrize("unknown", ["torch.optim.functional", "torch.nn.Linear", "mine.AdamW", "torch.nn.functional"])
def test_finds_nothing(unknown: str) -> None:
    assert load().find(unknown) is None


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("torch.optim.SGD", Role.OPTIMIZER),
        ("torch.optim.Invented", Role.OPTIMIZER),
        ("torch.nn.CrossEntropyLoss", Role.LOSS_FUNCTION),
        ("torch.nn.parallel.DistributedDataParallel", Role.WRAPPED_MODEL),
        ("accelerate.optimizer.AcceleratedOptimizer", Role.PREPARED_OPTIMIZER),
        ("trl.SFTTrainer", Role.TRAINER),
        ("torch.utils.data.DataLoader", Role.LOADER),
        ("nothing.Known", None),
    ],
)
def test_role(name: str, role: Role | None) -> None:
    assert load().role_of(name) is role


def test_attributes_come_from_bases() -> None:
    registry = load()
    assert registry.attribute("accelerate.Accelerator", "num_processes") == Ranks()
    assert registry.attribute("accelerate.data_loader.DataLoaderShard", "drop_last") == Const(False)
    assert registry.attribute("trl.SFTTrainer", "loss_is_scaled_for_ga") == Const(True)
    assert registry.attribute("torch.optim.SGD", "nothing") is None


def test_unknown_receivers() -> None:
    registry = load()
    for method in ("backward", "zero_grad", "item", "detach", "to", "view", "mean", "sum", "numel", "clamp", "no_sync"):
        assert registry.by_method(method) is not None, method
    for method in ("step", "accumulate", "clip_grad_norm_", "forward", "update"):
        assert registry.by_method(method) is None, method
    assert registry.setter(None, "require_backward_grad_sync") is not None
    assert registry.setter("torch.nn.parallel.DistributedDataParallel", "training") is None
    assert registry.returned("pytorch_lightning.LightningModule", "training_step") is not None


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param((Table("a", (row("x"),)), Table("b", (row("x"),))), id="two rows"),
        pytest.param((Table("a", (row("x", aliases=("y",)), row("y"))),), id="alias is a row"),
        pytest.param((Table("a", (), (ClassRow("C"), ClassRow("C"))),), id="two classes"),
        pytest.param((Table("a", (), (), (PatternRow("m.*", "gone"),)),), id="pattern of nothing"),
        pytest.param((Table("a", (), (), (), (Rename("m", "n"), Rename("m", "o"))),), id="two renamings"),
    ],
)
def test_refuses_overlap(tables: tuple[Table, ...]) -> None:
    with pytest.raises(TableError):
        Registry.of(tables)


def test_refuses_circles() -> None:
    registry = Registry.of((Table("a", (), (), (), (Rename("m", "n"), Rename("n", "m"))),))
    with pytest.raises(TableError):
        registry.canonical("m.x")


def test_a_pattern_stays_between_dots() -> None:
    registry = Registry.of((Table("a", (row("like"),), (), (PatternRow("m.[A-Z]*", "like"),)),))
    assert registry.find("m.Any") is not None
    assert registry.find("m.any") is None
    assert registry.find("m.Any.thing") is None


def test_rows_of_other_versions_are_left_out() -> None:
    """Of two rows for one call the newest allowed version chooses; without a bound the newest known."""
    old = Row("lib.f", "x", "lib 1.0, a.py", (), versions="<2")
    new = Row("lib.f", "x, y", "lib 2.0, a.py", (), versions=">=2")
    table = Table("lib", (old, new))
    assert Registry.of((table,)).find("lib.f") is new
    assert Registry.of((table,), {"lib": (1, 9)}).find("lib.f") is old
    assert Registry.of((table,), {"other": (1, 9)}).find("lib.f") is new


def test_a_project_chooses_the_versions(tmp_path: Path) -> None:
    """Before 4.46 the Trainer counts no items, and its Accelerator is told the number of steps."""
    assert load_for(None) is load()
    assert load_for(Project(tmp_path)) is load()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "requirements.txt").write_text("transformers==4.45.2\n")
    old = load_for(Project(tmp_path / "old"))
    assert old.returned("transformers.Trainer", "compute_loss") is None
    assert load().returned("transformers.Trainer", "compute_loss") is not None
    part = "transformers.Trainer.accelerator"
    assert load().attribute(part, "gradient_accumulation_steps") == Const(1)
    assert old.attribute(part, "gradient_accumulation_steps") == OwnerAttr("args.gradient_accumulation_steps")
