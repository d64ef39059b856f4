"""DeepSpeed: the engine divides by its number of steps and gates its own step.

The engine's clock moves at `backward`, so that the boundary is the same for the `step` that follows.
"""

from accumlint.apis.language import (
    Arg,
    ArgAttr,
    Attr,
    Backward,
    ClassRow,
    Clear,
    Const,
    Is,
    Microstep,
    Ranks,
    Receiver,
    Rename,
    Role,
    Row,
    SetSync,
    Step,
    Wrap,
    Yields,
)

ENGINE = "deepspeed.DeepSpeedEngine"
OPTIMIZER = "deepspeed.DeepSpeedOptimizer"
LOADER = "deepspeed.DeepSpeedDataLoader"
SCHEDULER = "deepspeed.DeepSpeedScheduler"
SOURCE = "deepspeed 0.19.8, runtime/engine.py"
BOUNDARY = Is(Attr("at_boundary"), True, unknown=True)

ROWS = (
    Row(
        "deepspeed.initialize",
        "args=None, model=None, optimizer=None, model_parameters=None, training_data=None, lr_scheduler=None, "
        "distributed_port=29500, mpu=None, dist_init_required=None, collate_fn=None, config=None, mesh_param=None, "
        "config_params=None",
        "deepspeed 0.19.8, __init__.py",
        (
            Wrap(
                (Arg("model"), Arg("optimizer"), Arg("training_data"), Arg("lr_scheduler")),
                (),
                classes=(ENGINE, OPTIMIZER, LOADER, SCHEDULER),
                attributes=(("_accumulation_steps", ArgAttr("config", "gradient_accumulation_steps")),),
            ),
        ),
        assumes=("the engine manages accumulation itself (managed_gradient_accumulation)",),
    ),
    Row(
        f"{ENGINE}.backward",
        "loss, retain_graph=False, scale_wrt_gas=True, **kwargs",
        f"{SOURCE}:3179-3187, 3382-3413",
        (
            Microstep(Attr("_accumulation_steps"), flag="at_boundary"),
            Backward(
                Arg("loss"),
                divided_by=Attr("_accumulation_steps"),
                when=(Is(Arg("scale_wrt_gas"), False, negated=True, unknown=True),),
            ),
            Backward(Arg("loss"), when=(Is(Arg("scale_wrt_gas"), False),)),
        ),
    ),
    Row(
        f"{ENGINE}.step",
        "lr_kwargs=None",
        f"{SOURCE}:3505-3532, 3567-3611",
        (Step(Receiver(), when=(BOUNDARY,)), Clear(Receiver(), when=(BOUNDARY,))),
        assumes=("clipping is the configuration's, and happens inside the step",),
    ),
    Row(f"{ENGINE}.is_gradient_accumulation_boundary", "", f"{SOURCE}:3442-3465", (Yields(Attr("at_boundary")),)),
    Row(f"{ENGINE}.gradient_accumulation_steps", "", SOURCE, (Yields(Attr("_accumulation_steps")),)),
    Row(f"{ENGINE}.set_gradient_accumulation_boundary", "is_boundary", f"{SOURCE}:3442-3465", ()),
    Row(  # what is partitioned does not live in `.grad`: nothing is claimed
        f"{ENGINE}.zero_grad",
        "",
        SOURCE,
        (),
    ),
    Row(
        f"{ENGINE}.no_sync",
        "",
        f"{SOURCE}:3219-3237",
        (SetSync(Receiver(), on=Const(False)),),
        undo=(SetSync(Receiver(), on=Const(True)),),
        assumes=("ZeRO stage below 2",),
    ),
    Row(f"{OPTIMIZER}.step", "closure=None", SOURCE, ()),
    Row(f"{OPTIMIZER}.zero_grad", "set_to_none=True", SOURCE, ()),
    Row(f"{OPTIMIZER}.backward", "loss, **kwargs", SOURCE, (Backward(Arg("loss")),)),
    # The engine moves the scheduler it was given at each boundary; a second call is the user's.
    Row(f"{SCHEDULER}.step", "*args, **kwargs", SOURCE, ()),
    Row("deepspeed.init_distributed", "*args, **kwargs", "deepspeed 0.19.8, comm/comm.py", ()),
    *(
        Row(f"{ENGINE}.{name}", "*args, **kwargs", SOURCE, ())
        for name in ("save_checkpoint", "load_checkpoint", "get_lr")
    ),
)

CLASSES = (
    ClassRow(
        ENGINE,
        bases=("torch.nn.Module",),
        role=Role.ENGINE,
        attributes=(
            ("module", Receiver()),
            ("at_boundary", Const(True)),
            ("world_size", Ranks()),
            ("dp_world_size", Ranks()),
        ),
    ),
    ClassRow(OPTIMIZER, role=Role.PREPARED_OPTIMIZER),
    ClassRow(LOADER, bases=("torch.utils.data.DataLoader",), role=Role.LOADER),
    ClassRow(SCHEDULER, bases=("torch.optim.lr_scheduler.LRScheduler",), role=Role.PREPARED_SCHEDULER),
)

RENAMES = (Rename("deepspeed.runtime.engine", "deepspeed"), Rename("deepspeed.comm", "torch.distributed"))
