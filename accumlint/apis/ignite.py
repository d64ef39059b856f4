"""Ignite: an engine calls the user's step for each batch; its own trainers divide by the constant number of steps.

The release was not at hand when the rows were written: the signatures are from its documentation.
"""

from accumlint.apis.language import (
    AllReduce,
    Arg,
    ClassRow,
    Drive,
    Is,
    Make,
    Rename,
    Role,
    Row,
    WorldSize,
    Wrap,
    Yields,
)

ENGINE = "ignite.engine.Engine"
SOURCE = "pytorch-ignite 0.5.3, engine/__init__.py"
SUPERVISED = (
    "model, optimizer, loss_fn, device=None, non_blocking=False, prepare_batch=None, output_transform=None, "
    "deterministic=False, amp_mode=None, scaler=False, gradient_accumulation_steps=1, **kwargs"
)

ROWS = (
    Row(
        ENGINE,
        "process_function",
        "pytorch-ignite 0.5.3, engine/engine.py",
        (Make(Role.TRAINER, of=(Arg("process_function"),)), Drive(Arg("process_function"), counter="state.iteration")),
        assumes=("the engine is run over more batches than a window has",),
    ),
    Row(f"{ENGINE}.run", "data=None, max_epochs=None, epoch_length=None", "pytorch-ignite 0.5.3, engine/engine.py", ()),
    Row(
        "ignite.engine.create_supervised_trainer",
        SUPERVISED,
        SOURCE,
        (
            Make(
                Role.TRAINER,
                of=(Arg("model"), Arg("optimizer")),
                attributes=(("gradient_accumulation_steps", Arg("gradient_accumulation_steps")),),
                canonical=ENGINE,
            ),
        ),
        assumes=("each microbatch mean is divided by gradient_accumulation_steps",),
    ),
    Row("ignite.distributed.get_world_size", "", "pytorch-ignite 0.5.3, distributed/utils.py", (WorldSize(),)),
    Row(
        "ignite.distributed.all_reduce",
        "tensor, op='SUM', group=None",
        "pytorch-ignite 0.5.3, distributed/utils.py",
        (AllReduce(Arg("tensor"), yields=True, when=(Is(Arg("op"), "SUM", unknown=True),)),),
    ),
    Row(
        "ignite.distributed.auto_optim",
        "optimizer, **kwargs",
        "pytorch-ignite 0.5.3, distributed/auto.py",
        (Yields(Arg("optimizer")),),
    ),
    Row(
        "ignite.distributed.auto_model",
        "model, sync_bn=False, **kwargs",
        "pytorch-ignite 0.5.3, distributed/auto.py",
        (Wrap((Arg("model"),), (), classes=("torch.nn.parallel.DistributedDataParallel",)),),
    ),
    Row(
        "ignite.distributed.auto_dataloader",
        "dataset, **kwargs",
        "pytorch-ignite 0.5.3, distributed/auto.py",
        (Make(Role.LOADER, of=(Arg("dataset"),), canonical="torch.utils.data.DataLoader"),),
    ),
)

CLASSES = (ClassRow(ENGINE, role=Role.TRAINER),)

RENAMES = (Rename("ignite.engine.engine", "ignite.engine"), Rename("ignite.distributed.utils", "ignite.distributed"))
