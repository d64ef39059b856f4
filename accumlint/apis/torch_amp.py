"""torch.amp: the gradient scaler and autocast."""

from accumlint.apis.language import (
    Advance,
    Arg,
    Attr,
    ClassRow,
    Const,
    Is,
    Make,
    Receiver,
    Rename,
    Role,
    Row,
    ScaleLoss,
    Step,
    Unscale,
    Yields,
)

SCALER = "torch.amp.GradScaler"
ENABLED = ("enabled", Arg("enabled"))
IN_USE = (Is(Attr("enabled"), False, negated=True, unknown=True),)
SOURCE = "torch 2.13.0, amp/grad_scaler.py"
AUTOCAST = "torch 2.13.0, amp/autocast_mode.py"
OPTIONS = "init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True"

ROWS = (
    Row(
        SCALER,
        f"device='cuda', {OPTIONS}",
        SOURCE,
        (Make(Role.SCALER, attributes=(ENABLED,)),),
        aliases=("torch.GradScaler",),
    ),
    Row("torch.cuda.amp.GradScaler", OPTIONS, SOURCE, (Make(Role.SCALER, attributes=(ENABLED,), canonical=SCALER),)),
    Row("torch.cpu.amp.GradScaler", OPTIONS, SOURCE, (Make(Role.SCALER, attributes=(ENABLED,), canonical=SCALER),)),
    Row(
        "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
        "device='cuda', init_scale=65536.0, backoff_factor=0.5, growth_factor=2.0, growth_interval=2000, "
        "enabled=True, process_group=None",
        "torch 2.13.0, distributed/fsdp/sharded_grad_scaler.py",
        (Make(Role.SCALER, attributes=(ENABLED,), canonical=SCALER),),
    ),
    Row(
        f"{SCALER}.scale",
        "outputs",
        f"{SOURCE}:302-361",
        (
            ScaleLoss(Arg("outputs"), Receiver(), when=IN_USE),
            Yields(Arg("outputs"), when=(Is(Attr("enabled"), False),)),
        ),
    ),
    Row(
        f"{SCALER}.unscale_",
        "optimizer",
        f"{SOURCE}:302-361",
        (Unscale(Arg("optimizer"), when=IN_USE),),
    ),
    Row(
        f"{SCALER}.step",
        "optimizer, *args, **kwargs",
        f"{SOURCE}:375-482",
        (Unscale(Arg("optimizer"), unless_done=True, when=IN_USE), Step(Arg("optimizer"))),
        assumes=("no inf or nan in the window, so the step is not skipped",),
    ),
    Row(f"{SCALER}.update", "new_scale=None", f"{SOURCE}:484", (Advance("scaler", Receiver()),)),
    Row(f"{SCALER}.get_scale", "", SOURCE, ()),
    Row(f"{SCALER}.is_enabled", "", SOURCE, ()),
    Row(f"{SCALER}.state_dict", "", SOURCE, ()),
    Row(f"{SCALER}.load_state_dict", "state_dict", SOURCE, ()),
    Row(
        "torch.amp.autocast",
        "device_type, dtype=None, enabled=True, cache_enabled=None",
        AUTOCAST,
        (),
        aliases=("torch.autocast",),
    ),
    Row("torch.cuda.amp.autocast", "enabled=True, dtype=torch.float16, cache_enabled=True", AUTOCAST, ()),
    Row("torch.cpu.amp.autocast", "enabled=True, dtype=torch.bfloat16, cache_enabled=True", AUTOCAST, ()),
)

CLASSES = (
    ClassRow(SCALER, role=Role.SCALER, attributes=(("enabled", Const(True)),)),
    ClassRow("torch.cuda.amp.GradScaler", bases=(SCALER,), role=Role.SCALER),
    ClassRow("torch.cpu.amp.GradScaler", bases=(SCALER,), role=Role.SCALER),
    ClassRow("torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler", bases=(SCALER,), role=Role.SCALER),
)

RENAMES = (
    Rename("torch.amp.grad_scaler", "torch.amp"),
    Rename("torch.cuda.amp.grad_scaler", "torch.cuda.amp"),
    Rename("torch.amp.autocast_mode", "torch.amp"),
    Rename("torch.cuda.amp.autocast_mode", "torch.cuda.amp"),
)
