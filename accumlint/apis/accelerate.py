"""Accelerate: `backward` divides by the constant number of steps, prepared objects are gated, clipping is not."""

from accumlint.apis.language import (
    Advance,
    AllReduce,
    Arg,
    ArgAttr,
    Attr,
    Backward,
    ClassRow,
    Clear,
    Clip,
    Const,
    Is,
    Make,
    Microstep,
    Operand,
    OwnerAttr,
    Ranks,
    Receiver,
    Rename,
    Role,
    Row,
    Same,
    SetSync,
    Step,
    Wrap,
    Yields,
)

ACCELERATOR = "accelerate.Accelerator"
PLUGIN = "accelerate.utils.GradientAccumulationPlugin"
OPTIMIZER = "accelerate.optimizer.AcceleratedOptimizer"
SCHEDULER = "accelerate.scheduler.AcceleratedScheduler"
LOADER = "accelerate.data_loader.DataLoaderShard"
MODEL = "accelerate.PreparedModel"
SOURCE = "accelerate 1.15.0, accelerator.py"
SYNCING = Is(OwnerAttr("sync_gradients"), True, unknown=True)
TIED = Is(OwnerAttr("step_scheduler_with_optimizer"), False, negated=True, unknown=True)
GIVEN = Is(Arg("gradient_accumulation_plugin"), None, negated=True, unknown=True)

COMMON: tuple[tuple[str, Operand], ...] = (
    ("split_batches", Arg("split_batches")),
    ("mixed_precision", Arg("mixed_precision")),
    ("step_scheduler_with_optimizer", Arg("step_scheduler_with_optimizer")),
)

ROWS = (
    Row(
        ACCELERATOR,
        "device_placement=True, split_batches=False, mixed_precision=None, gradient_accumulation_steps=1, cpu=False, "
        "dataloader_config=None, deepspeed_plugin=None, fsdp_plugin=None, torch_tp_plugin=None, "
        "megatron_lm_plugin=None, rng_types=None, log_with=None, project_dir=None, project_config=None, "
        "gradient_accumulation_plugin=None, step_scheduler_with_optimizer=True, kwargs_handlers=None, "
        "dynamo_backend=None, dynamo_plugin=None, deepspeed_plugins=None, parallelism_config=None",
        f"{SOURCE}:280-300",
        (
            Make(
                Role.ACCELERATOR,
                attributes=(("gradient_accumulation_steps", Arg("gradient_accumulation_steps")), *COMMON),
                when=(Is(Arg("gradient_accumulation_plugin"), None),),
            ),
            Make(
                Role.ACCELERATOR,
                attributes=(
                    ("gradient_accumulation_steps", ArgAttr("gradient_accumulation_plugin", "num_steps")),
                    ("sync_with_dataloader", ArgAttr("gradient_accumulation_plugin", "sync_with_dataloader")),
                    *COMMON,
                ),
                when=(GIVEN,),
            ),
        ),
    ),
    Row(
        PLUGIN,
        "num_steps=None, adjust_scheduler=True, sync_with_dataloader=True, sync_each_batch=False",
        "accelerate 1.15.0, utils/dataclasses.py:981-1030",
        (
            Make(
                Role.CONTEXT,
                attributes=(
                    ("num_steps", Arg("num_steps")),
                    ("sync_with_dataloader", Arg("sync_with_dataloader")),
                    ("sync_each_batch", Arg("sync_each_batch")),
                ),
            ),
        ),
    ),
    Row(
        f"{ACCELERATOR}.prepare",
        "*args, device_placement=None",
        f"{SOURCE}:1415",
        (
            Wrap(
                (Arg("*args"),),
                (
                    (Role.MODEL, MODEL),
                    (Role.OPTIMIZER, OPTIMIZER),
                    (Role.SCHEDULER, SCHEDULER),
                    (Role.LOADER, LOADER),
                ),
            ),
        ),
    ),
    Row(
        f"{ACCELERATOR}.prepare_model",
        "model, device_placement=None, evaluation_mode=False",
        f"{SOURCE}:1770",
        (Wrap((Arg("model"),), (), classes=(MODEL,)),),
    ),
    Row(
        f"{ACCELERATOR}.prepare_optimizer",
        "optimizer, device_placement=None",
        f"{SOURCE}:2744",
        (Wrap((Arg("optimizer"),), (), classes=(OPTIMIZER,)),),
    ),
    Row(
        f"{ACCELERATOR}.prepare_scheduler",
        "scheduler",
        f"{SOURCE}:2788",
        (Wrap((Arg("scheduler"),), (), classes=(SCHEDULER,)),),
    ),
    Row(
        f"{ACCELERATOR}.prepare_data_loader",
        "data_loader, device_placement=None, slice_fn_for_dispatch=None",
        f"{SOURCE}:2685",
        (Wrap((Arg("data_loader"),), (), classes=(LOADER,)),),
    ),
    Row(
        f"{ACCELERATOR}.backward",
        "loss, **kwargs",
        f"{SOURCE}:2829-2863",
        (Backward(Arg("loss"), divided_by=Attr("gradient_accumulation_steps")),),
        assumes=("under DeepSpeed its engine divides by the same number of steps",),
    ),
    Row(
        f"{ACCELERATOR}.accumulate",
        "*models",
        f"{SOURCE}:1230-1237, 1256-1298",
        (
            Microstep(
                Attr("gradient_accumulation_steps"),
                flag="sync_gradients",
                last_of_loader=Attr("sync_with_dataloader"),
            ),
            SetSync(Arg("*models"), on=Attr("sync_gradients")),
        ),
        undo=(SetSync(Arg("*models"), on=Const(True)),),
    ),
    Row(
        f"{ACCELERATOR}.no_sync",
        "model",
        f"{SOURCE}:1133-1180",
        (SetSync(Arg("model"), on=Const(False)),),
        undo=(SetSync(Arg("model"), on=Const(True)),),
    ),
    Row(
        f"{ACCELERATOR}.trigger_sync_in_backward",
        "model",
        f"{SOURCE}:1183",
        (SetSync(Arg("model"), on=Const(True)),),
    ),
    Row(  # not gated by sync_gradients; under fp16 it takes the scaler's factor out first, which is invisible here
        f"{ACCELERATOR}.clip_grad_norm_",
        "parameters, max_norm, norm_type=2",
        f"{SOURCE}:2989-3049",
        (Clip(Arg("parameters"), kind="norm", limit=Arg("max_norm")),),
        assumes=("the clip is active",),
    ),
    Row(
        f"{ACCELERATOR}.clip_grad_value_",
        "parameters, clip_value",
        f"{SOURCE}:3050-3076",
        (Clip(Arg("parameters"), kind="value", limit=Arg("clip_value")),),
        assumes=("the clip is active",),
    ),
    # Scaling and unscaling by fp16 stay inside Accelerate: backward scales, clip and step unscale.
    Row(f"{ACCELERATOR}.unscale_gradients", "optimizer=None", f"{SOURCE}:2922-2952", ()),
    Row(
        f"{ACCELERATOR}.gather",
        "tensor",
        f"{SOURCE}:3077",
        (AllReduce(Arg("tensor"), yields=True),),
        assumes=("what is gathered is summed afterwards",),
    ),
    Row(  # drops the duplicates of the last batch, for metrics only
        f"{ACCELERATOR}.gather_for_metrics",
        "input_data, use_gather_object=False",
        f"{SOURCE}:3109-3170",
        (),
    ),
    Row(
        f"{ACCELERATOR}.reduce",
        "tensor, reduction='sum', scale=1.0",
        f"{SOURCE}:3182",
        (
            AllReduce(Arg("tensor"), yields=True, when=(Is(Arg("reduction"), "sum"),)),
            AllReduce(Arg("tensor"), yields=True, mean=True, when=(Is(Arg("reduction"), "mean"),)),
        ),
    ),
    Row(f"{ACCELERATOR}.autocast", "autocast_handler=None", f"{SOURCE}:4219", ()),
    Row(f"{ACCELERATOR}.join_uneven_inputs", "joinables, even_batches=None", f"{SOURCE}:1301", ()),
    Row(
        f"{ACCELERATOR}.skip_first_batches",
        "dataloader, num_batches=0",
        f"{SOURCE}:4314",
        (Yields(Arg("dataloader")),),
    ),
    Row(
        f"{ACCELERATOR}.unwrap_model",
        "model, keep_fp32_wrapper=True, keep_torch_compile=True",
        f"{SOURCE}:3254",
        (Yields(Arg("model")),),
    ),
    Row(
        f"{ACCELERATOR}.pad_across_processes",
        "tensor, dim=0, pad_index=0, pad_first=False",
        f"{SOURCE}:3219",
        (Same(Arg("tensor")),),
    ),
    *(
        Row(f"{ACCELERATOR}.{name}", "*args, **kwargs", SOURCE, ())
        for name in ("wait_for_everyone", "log", "print", "save_state", "load_state", "init_trackers", "end_training")
    ),
    Row(
        "accelerate.skip_first_batches",
        "dataloader, num_batches=0",
        "accelerate 1.15.0, data_loader.py",
        (Yields(Arg("dataloader")),),
    ),
    Row(
        f"{OPTIMIZER}.step",
        "closure=None",
        "accelerate 1.15.0, optimizer.py:152-188",
        (Step(Receiver(), when=(SYNCING,)),),
    ),
    Row(
        f"{OPTIMIZER}.zero_grad",
        "set_to_none=None",
        "accelerate 1.15.0, optimizer.py:112-123",
        (Clear(Receiver(), when=(SYNCING,)),),
    ),
    Row(
        f"{SCHEDULER}.step",
        "*args, **kwargs",
        "accelerate 1.15.0, scheduler.py:54-82",
        (
            Advance("scheduler", Receiver(), when=(TIED, SYNCING)),
            Advance("scheduler", Receiver(), when=(Is(OwnerAttr("step_scheduler_with_optimizer"), False),)),
        ),
        assumes=("the scheduler moves once for each process at a step: its horizon counts that",),
    ),
)

CLASSES = (
    ClassRow(
        ACCELERATOR,
        role=Role.ACCELERATOR,
        attributes=(
            ("sync_gradients", Const(True)),
            ("sync_with_dataloader", Const(True)),
            ("num_processes", Ranks()),
            ("optimizer_step_was_skipped", Const(False)),
            ("state", Receiver()),
            ("gradient_state", Receiver()),
            ("num_steps", Attr("gradient_accumulation_steps")),
        ),
    ),
    ClassRow(OPTIMIZER, bases=("torch.optim.Optimizer",), role=Role.PREPARED_OPTIMIZER),
    ClassRow(SCHEDULER, bases=("torch.optim.lr_scheduler.LRScheduler",), role=Role.PREPARED_SCHEDULER),
    ClassRow(LOADER, bases=("torch.utils.data.DataLoader",), role=Role.LOADER),
    ClassRow(MODEL, bases=("torch.nn.parallel.DistributedDataParallel",), role=Role.WRAPPED_MODEL),
)

RENAMES = (
    Rename("accelerate.accelerator", "accelerate"),
    Rename("accelerate.GradientAccumulationPlugin", PLUGIN),
    Rename("accelerate.utils.dataclasses", "accelerate.utils"),
    Rename("accelerate.data_loader.skip_first_batches", "accelerate.skip_first_batches"),
)
