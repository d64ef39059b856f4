"""PyTorch Lightning. Automatic: what `training_step` returns is divided by the constant number of batches.

Manual: `manual_backward` divides nothing, everything else is the user's.
"""

from accumlint.apis.language import (
    AllReduce,
    Arg,
    Attr,
    Backward,
    ClassRow,
    Clear,
    Clip,
    Const,
    Hook,
    Is,
    Make,
    Microstep,
    Ranks,
    Receiver,
    Rename,
    Role,
    Row,
    SetSync,
    Step,
    Window,
)

MODULE = "lightning.pytorch.LightningModule"
TRAINER = "lightning.pytorch.Trainer"
OPTIMIZER = "lightning.pytorch.core.optimizer.LightningOptimizer"
SOURCE = "lightning 2.6.6, pytorch/core/module.py"
AUTOMATIC = Is(Attr("automatic_optimization"), False, negated=True, unknown=True)
BOUNDARY = Is(Attr("should_step"), True)

ROWS = (
    Row(
        TRAINER,
        "*, accelerator='auto', strategy='auto', devices='auto', num_nodes=1, precision=None, logger=None, "
        "callbacks=None, fast_dev_run=False, max_epochs=None, min_epochs=None, max_steps=-1, min_steps=None, "
        "max_time=None, limit_train_batches=None, limit_val_batches=None, limit_test_batches=None, "
        "limit_predict_batches=None, overfit_batches=0.0, val_check_interval=None, check_val_every_n_epoch=1, "
        "num_sanity_val_steps=None, log_every_n_steps=None, enable_checkpointing=None, enable_progress_bar=None, "
        "enable_model_summary=None, accumulate_grad_batches=1, gradient_clip_val=None, gradient_clip_algorithm=None, "
        "deterministic=None, benchmark=None, inference_mode=True, use_distributed_sampler=True, profiler=None, "
        "detect_anomaly=False, barebones=False, plugins=None, sync_batchnorm=False, "
        "reload_dataloaders_every_n_epochs=0, default_root_dir=None, enable_autolog_hparams=True, model_registry=None",
        "lightning 2.6.6, pytorch/trainer/trainer.py:91-135",
        (
            Make(
                Role.TRAINER,
                attributes=(
                    ("accumulate_grad_batches", Arg("accumulate_grad_batches")),
                    ("gradient_clip_val", Arg("gradient_clip_val")),
                ),
            ),
        ),
    ),
    Row(
        f"{MODULE}.training_step.__return__",
        "value",
        "lightning 2.6.6, pytorch/loops/optimization/automatic.py:81-83, 172-192, 220-222, 329; "
        "pytorch/loops/training_epoch_loop.py:438-454; pytorch/plugins/precision/precision.py:77-113",
        (
            Microstep(
                Attr("accumulate_grad_batches"),
                flag="should_step",
                last_of_loader=Const(True),
                when=(AUTOMATIC,),
            ),
            Backward(Arg("value"), divided_by=Attr("accumulate_grad_batches"), when=(AUTOMATIC,)),
            Hook("on_before_optimizer_step", Receiver(), when=(AUTOMATIC, BOUNDARY)),
            Clip(
                Receiver(),
                kind="norm",
                limit=Attr("gradient_clip_val"),
                when=(AUTOMATIC, BOUNDARY, Is(Attr("gradient_clip_val"), None, negated=True)),
            ),
            Step(Receiver(), when=(AUTOMATIC, BOUNDARY)),
            Clear(Receiver(), when=(AUTOMATIC, BOUNDARY)),
        ),
        assumes=(
            "the Trainer's accumulate_grad_batches is the number of microbatches of a window",
            "the strategy is not DeepSpeed, which divides once more",
        ),
    ),
    Row(  # under manual optimization the Trainer only calls it, once for each batch of each epoch
        f"{MODULE}.training_step.__after__",
        "batch",
        "lightning 2.6.6, pytorch/loops/training_epoch_loop.py",
        (),
    ),
    Row(f"{MODULE}.manual_backward", "loss, *args, **kwargs", f"{SOURCE}:1092", (Backward(Arg("loss")),)),
    Row(
        f"{MODULE}.optimizers",
        "use_pl_optimizer=True",
        f"{SOURCE}:168",
        (Make(Role.OPTIMIZER, of=(Receiver(),), canonical=OPTIMIZER, kept=True),),
        assumes=("self.optimizers() returns the one optimizer of the module, or their list",),
    ),
    Row(
        f"{MODULE}.lr_schedulers",
        "",
        f"{SOURCE}:198",
        (Make(Role.SCHEDULER, canonical="torch.optim.lr_scheduler.LRScheduler", kept=True),),
    ),
    Row(
        f"{MODULE}.clip_gradients",
        "optimizer, gradient_clip_val=None, gradient_clip_algorithm=None",
        f"{SOURCE}:1210",
        (
            Clip(
                Arg("optimizer"),
                kind="value",
                limit=Arg("gradient_clip_val"),
                when=(Is(Arg("gradient_clip_algorithm"), "value"),),
            ),
            Clip(
                Arg("optimizer"),
                kind="norm",
                limit=Arg("gradient_clip_val"),
                when=(Is(Arg("gradient_clip_algorithm"), "value", negated=True, unknown=True),),
            ),
        ),
        assumes=("the clip is active",),
    ),
    # Toggling turns off requires_grad of the other optimizers' parameters, so that backward reaches only one.
    Row(f"{MODULE}.toggle_optimizer", "optimizer", f"{SOURCE}:1139", ()),
    Row(f"{MODULE}.untoggle_optimizer", "optimizer", f"{SOURCE}:1168", ()),
    Row(f"{MODULE}.toggled_optimizer", "optimizer", f"{SOURCE}:1185", ()),
    Row(
        f"{MODULE}.all_gather",
        "data, group=None, sync_grads=False",
        SOURCE,
        (AllReduce(Arg("data"), yields=True),),
        assumes=("what is gathered is summed afterwards",),
    ),
    *(
        Row(f"{MODULE}.{name}", "*args, **kwargs", SOURCE, ())
        for name in ("log", "log_dict", "print", "save_hyperparameters")
    ),
    Row(
        f"{OPTIMIZER}.step",
        "closure=None, **kwargs",
        "lightning 2.6.6, pytorch/core/optimizer.py:85",
        (Step(Receiver()),),
    ),
    Row(
        f"{OPTIMIZER}.toggle_model",
        "sync_grad=True",
        "lightning 2.6.6, pytorch/core/optimizer.py:63",
        (SetSync(Receiver(), on=Arg("sync_grad")),),
        undo=(SetSync(Receiver(), on=Const(True)),),
    ),
    *(
        Row(f"{TRAINER}.{name}", "*args, **kwargs", "lightning 2.6.6, pytorch/trainer/trainer.py", ())
        for name in ("fit", "validate", "test", "predict", "save_checkpoint")
    ),
)

CLASSES = (
    ClassRow(
        MODULE,
        bases=("torch.nn.Module",),
        role=Role.TRAINER,
        attributes=(
            ("automatic_optimization", Const(True)),
            ("epoch end", Const("on_train_epoch_end")),
            ("should_step", Const(True)),
            ("trainer", Receiver()),
            ("world_size", Ranks()),
            ("param_groups", Receiver()),  # what hooks get as `optimizer` under automatic optimization
            ("is_last_batch", Window(Const(1), "last")),
        ),
        aliases=("lightning.LightningModule",),
    ),
    ClassRow(
        TRAINER,
        role=Role.TRAINER,
        attributes=(("world_size", Ranks()),),
        aliases=("lightning.Trainer",),
    ),
    ClassRow(OPTIMIZER, bases=("torch.optim.Optimizer",), role=Role.OPTIMIZER),
)

RENAMES = (
    Rename("pytorch_lightning", "lightning.pytorch"),
    Rename("lightning.pytorch.core.module", "lightning.pytorch"),
    Rename("lightning.pytorch.core.lightning", "lightning.pytorch"),
    Rename("lightning.pytorch.core.LightningModule", MODULE),
    Rename("lightning.pytorch.trainer.trainer", "lightning.pytorch"),
    Rename("lightning.pytorch.trainer.Trainer", TRAINER),
)
