"""torch.optim.lr_scheduler, and schedulers of other packages that advance by `step` alike."""

from accumlint.apis.language import Advance, Arg, ClassRow, Effect, Is, Make, PatternRow, Receiver, Rename, Role, Row

SCHEDULER = "torch.optim.lr_scheduler.LRScheduler"
SOURCE = "torch 2.13.0, optim/lr_scheduler.py"
MAKE: tuple[Effect, ...] = (Make(Role.SCHEDULER, of=(Arg("optimizer"),)),)

CONSTRUCTORS = {
    "LRScheduler": "optimizer, last_epoch=-1",
    "ChainedScheduler": "schedulers, optimizer=None",
    "ConstantLR": "optimizer, factor=0.3333333333333333, total_iters=5, last_epoch=-1",
    "CosineAnnealingLR": "optimizer, T_max, eta_min=0.0, last_epoch=-1",
    "CosineAnnealingWarmRestarts": "optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1",
    "CyclicLR": "optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode='triangular', gamma=1.0, "
    "scale_fn=None, scale_mode='cycle', cycle_momentum=True, base_momentum=0.8, max_momentum=0.9, last_epoch=-1",
    "ExponentialLR": "optimizer, gamma, last_epoch=-1",
    "LambdaLR": "optimizer, lr_lambda, last_epoch=-1",
    "LinearLR": "optimizer, start_factor=0.3333333333333333, end_factor=1.0, total_iters=5, last_epoch=-1",
    "MultiStepLR": "optimizer, milestones, gamma=0.1, last_epoch=-1",
    "MultiplicativeLR": "optimizer, lr_lambda, last_epoch=-1",
    "OneCycleLR": "optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3, "
    "anneal_strategy='cos', cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0, "
    "final_div_factor=10000.0, three_phase=False, last_epoch=-1",
    "PolynomialLR": "optimizer, total_iters=5, power=1.0, last_epoch=-1",
    "ReduceLROnPlateau": "optimizer, mode='min', factor=0.1, patience=10, threshold=0.0001, threshold_mode='rel', "
    "cooldown=0, min_lr=0, eps=1e-08",
    "SequentialLR": "optimizer, schedulers, milestones, last_epoch=-1",
    "StepLR": "optimizer, step_size, gamma=0.1, last_epoch=-1",
}
OTHER_CONSTRUCTORS = (
    ("timm.scheduler.create_scheduler", "args, optimizer, updates_per_epoch=0", "timm 1.0, scheduler_factory.py"),
    ("timm.scheduler.create_scheduler_v2", "optimizer, *args, **kwargs", "timm 1.0, scheduler_factory.py"),
    ("diffusers.optimization.get_scheduler", "name, optimizer, *args, **kwargs", "diffusers 0.35.0, optimization.py"),
)

ROWS = (
    *(Row(f"torch.optim.lr_scheduler.{name}", given, SOURCE, MAKE) for name, given in CONSTRUCTORS.items()),
    # Told a place (`step(epoch + i / len(loader))`), it goes there: a call more or less does not move it.
    Row(f"{SCHEDULER}.step", "epoch=None", SOURCE, (Advance("scheduler", Receiver(), when=(Is(Arg("epoch"), None),)),)),
    Row(
        "torch.optim.lr_scheduler.ReduceLROnPlateau.step",
        "metrics, epoch=None",
        SOURCE,
        (Advance("scheduler", Receiver()),),
    ),
    Row(f"{SCHEDULER}.get_last_lr", "", SOURCE, ()),
    Row(f"{SCHEDULER}.state_dict", "", SOURCE, ()),
    Row(f"{SCHEDULER}.load_state_dict", "state_dict", SOURCE, ()),
    # A scheduler whose constructor nothing else is known of: the optimizer comes first.
    Row(
        "accumlint.AnyScheduler",
        "optimizer, *args, **kwargs",
        "torch 2.13.0, optim/lr_scheduler.py: the protocol of a subclass",
        (Make(Role.SCHEDULER, of=(Arg("optimizer"),), canonical=SCHEDULER),),
        assumes=("the scheduler advances by one at each step()",),
    ),
    *(
        Row(call, given, source, (Make(Role.SCHEDULER, of=(Arg("optimizer"),), canonical=SCHEDULER),))
        for call, given, source in OTHER_CONSTRUCTORS
    ),
    # timm's schedulers are told the epoch or the update, so a call more or less does not move them.
    Row("timm.scheduler.Scheduler", "optimizer, *args, **kwargs", "timm 1.0, scheduler/scheduler.py", MAKE),
    Row("timm.scheduler.Scheduler.step", "epoch, metric=None", "timm 1.0, scheduler/scheduler.py", ()),
    Row("timm.scheduler.Scheduler.step_update", "num_updates, metric=None", "timm 1.0, scheduler/scheduler.py", ()),
)

CLASSES = (
    ClassRow(SCHEDULER, role=Role.SCHEDULER, aliases=("torch.optim.lr_scheduler._LRScheduler",)),
    *(
        ClassRow(f"torch.optim.lr_scheduler.{name}", bases=(SCHEDULER,), role=Role.SCHEDULER)
        for name in CONSTRUCTORS
        if name != "LRScheduler"
    ),
    ClassRow("torch.optim.swa_utils.SWALR", bases=(SCHEDULER,), role=Role.SCHEDULER),
    ClassRow("accumlint.AnyScheduler", bases=(SCHEDULER,), role=Role.SCHEDULER),
    ClassRow("timm.scheduler.Scheduler", role=Role.SCHEDULER),
)

PATTERNS = (
    *(
        PatternRow(pattern, "accumlint.AnyScheduler")
        for pattern in (
            "torch.optim.lr_scheduler.[A-Z]*",
            "warmup_scheduler.GradualWarmupScheduler",
            "pl_bolts.optimizers.lr_scheduler.[A-Z]*",
            "deepspeed.runtime.lr_schedules.[A-Z]*",
            "diffusers.optimization.get_*_schedule*",
        )
    ),
    PatternRow("timm.scheduler.[A-Z]*Scheduler", "timm.scheduler.Scheduler"),
)

RENAMES = (
    Rename("timm.scheduler.scheduler", "timm.scheduler"),
    Rename("timm.scheduler.cosine_lr", "timm.scheduler"),
    Rename("timm.scheduler.scheduler_factory", "timm.scheduler"),
    Rename("warmup_scheduler.scheduler", "warmup_scheduler"),
)
