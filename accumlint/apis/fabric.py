"""Lightning Fabric: divides nothing, clips and synchronises where the user says so."""

from accumlint.apis.language import (
    AllReduce,
    Arg,
    Backward,
    ClassRow,
    Clip,
    Const,
    Is,
    Make,
    Ranks,
    Receiver,
    Rename,
    Role,
    Row,
    SetSync,
    Wrap,
    Yields,
)

FABRIC = "lightning.fabric.Fabric"
MODEL = "lightning.fabric.wrappers._FabricModule"
OPTIMIZER = "lightning.fabric.wrappers._FabricOptimizer"
LOADER = "lightning.fabric.wrappers._FabricDataLoader"
SOURCE = "lightning 2.6.6, fabric/fabric.py"

ROWS = (
    Row(
        FABRIC,
        "*, accelerator='auto', strategy='auto', devices='auto', num_nodes=1, precision=None, plugins=None, "
        "callbacks=None, loggers=None",
        f"{SOURCE}:134-145",
        (Make(Role.FABRIC),),
        assumes=("the strategy averages gradients over the ranks and divides by no number of steps",),
    ),
    Row(
        f"{FABRIC}.setup",
        "module, *optimizers, scheduler=None, move_to_device=True, _reapply_compile=True",
        f"{SOURCE}:229-310",
        (Wrap((Arg("module"), Arg("*optimizers")), (), classes=(MODEL, OPTIMIZER)),),
    ),
    Row(
        f"{FABRIC}.setup_module",
        "module, move_to_device=True, _reapply_compile=True",
        f"{SOURCE}:315",
        (Wrap((Arg("module"),), (), classes=(MODEL,)),),
    ),
    Row(
        f"{FABRIC}.setup_optimizers",
        "*optimizers",
        f"{SOURCE}:376",
        (Wrap((Arg("*optimizers"),), (), classes=(OPTIMIZER,)),),
    ),
    Row(
        f"{FABRIC}.setup_dataloaders",
        "*dataloaders, use_distributed_sampler=True, move_to_device=True",
        f"{SOURCE}:412",
        (Wrap((Arg("*dataloaders"),), (), classes=(LOADER,)),),
    ),
    Row(
        f"{FABRIC}.backward",
        "tensor, *args, model=None, **kwargs",
        f"{SOURCE}:482",
        (Backward(Arg("tensor")),),
    ),
    Row(
        f"{FABRIC}.clip_gradients",
        "module, optimizer, clip_val=None, max_norm=None, norm_type=2.0, error_if_nonfinite=True",
        f"{SOURCE}:527",
        (
            Clip(
                Arg("optimizer"),
                kind="norm",
                limit=Arg("max_norm"),
                when=(Is(Arg("max_norm"), None, negated=True, unknown=True),),
            ),
            Clip(
                Arg("optimizer"),
                kind="value",
                limit=Arg("clip_val"),
                when=(Is(Arg("clip_val"), None, negated=True, unknown=True),),
            ),
        ),
        assumes=("the clip is active",),
    ),
    Row(
        f"{FABRIC}.no_backward_sync",
        "module, enabled=True",
        f"{SOURCE}:733-768",
        (SetSync(Arg("module"), on=Arg("enabled"), negate=True),),
        undo=(SetSync(Arg("module"), on=Const(True)),),
    ),
    Row(
        f"{FABRIC}.all_reduce",
        "data, group=None, reduce_op='mean'",
        f"{SOURCE}:681",
        (
            AllReduce(Arg("data"), yields=True, mean=True, when=(Is(Arg("reduce_op"), "mean"),)),
            AllReduce(Arg("data"), yields=True, when=(Is(Arg("reduce_op"), "sum"),)),
        ),
    ),
    Row(
        f"{FABRIC}.all_gather",
        "data, group=None, sync_grads=False",
        f"{SOURCE}:657",
        (AllReduce(Arg("data"), yields=True),),
        assumes=("what is gathered is summed afterwards",),
    ),
    Row(f"{FABRIC}.to_device", "obj", f"{SOURCE}:601", (Yields(Arg("obj")),)),
    Row(f"{FABRIC}.broadcast", "obj, src=0", f"{SOURCE}:640", (Yields(Arg("obj")),)),
    *(
        Row(f"{FABRIC}.{name}", "*args, **kwargs", SOURCE, ())
        for name in (
            "autocast",
            "barrier",
            "print",
            "launch",
            "call",
            "log",
            "log_dict",
            "save",
            "load",
            "seed_everything",
            "init_module",
            "init_tensor",
            "rank_zero_first",
        )
    ),
)

CLASSES = (
    ClassRow(FABRIC, role=Role.FABRIC, attributes=(("world_size", Ranks()),), aliases=("lightning.Fabric",)),
    ClassRow(MODEL, bases=("torch.nn.Module",), role=Role.WRAPPED_MODEL, attributes=(("module", Receiver()),)),
    ClassRow(OPTIMIZER, bases=("torch.optim.Optimizer",), role=Role.OPTIMIZER),
    ClassRow(LOADER, bases=("torch.utils.data.DataLoader",), role=Role.LOADER),
)

RENAMES = (
    Rename("lightning_fabric", "lightning.fabric"),
    Rename("lightning.fabric.fabric", "lightning.fabric"),
)
