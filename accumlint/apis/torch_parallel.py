"""Wrapped models: DistributedDataParallel, DataParallel, FSDP and fully_shard, and who synchronises when."""

from accumlint.apis.language import (
    Arg,
    ClassRow,
    Clip,
    Const,
    Forget,
    RankDivisor,
    Receiver,
    Rename,
    Role,
    Row,
    SetSync,
    Wrap,
)

MODULE = "torch.nn.Module"
DDP = "torch.nn.parallel.DistributedDataParallel"
FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
FSDP2 = "torch.distributed.fsdp.FSDPModule"
DDP_SOURCE = "torch 2.13.0, nn/parallel/distributed.py"
FSDP_SOURCE = "torch 2.13.0, distributed/fsdp/fully_sharded_data_parallel.py"
FSDP2_SOURCE = "torch 2.13.0, distributed/fsdp/_fully_shard/_fully_shard.py"
AVERAGED = ("gradients are averaged over the ranks: no communication hook changes that",)

ROWS = (
    Row(
        DDP,
        "module, device_ids=None, output_device=None, dim=0, broadcast_buffers=None, init_sync=True, "
        "process_group=None, bucket_cap_mb=None, find_unused_parameters=False, check_reduction=False, "
        "gradient_as_bucket_view=False, static_graph=False, delay_all_reduce_named_params=None, "
        "param_to_hook_all_reduce=None, mixed_precision=None, device_mesh=None, skip_all_reduce_unused_params=False, "
        "bucket_cap_mb_list=None, batched_grad_copy=False, forward_sync_buffers=None",
        f"{DDP_SOURCE}:549",
        (Wrap((Arg("module"),), (), classes=(DDP,)),),
        assumes=AVERAGED,
    ),
    Row(
        f"{DDP}.no_sync",
        "",
        f"{DDP_SOURCE}:1659-1685",
        (SetSync(Receiver(), on=Const(False)),),
        undo=(SetSync(Receiver(), on=Const(True)),),
    ),
    Row(
        f"{DDP}.require_backward_grad_sync.__set__",
        "value",
        f"{DDP_SOURCE}:1659-1685",
        (SetSync(Receiver(), on=Arg("value")),),
    ),
    Row(
        f"{DDP}.join",
        "divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False",
        DDP_SOURCE,
        (),
    ),
    Row(f"{DDP}.register_comm_hook", "state, hook", DDP_SOURCE, (Forget((Receiver(),)),)),
    # One process splits each batch over its devices and sums the gradients: nothing is averaged.
    Row(
        "torch.nn.DataParallel",
        "module, device_ids=None, output_device=None, dim=0",
        "torch 2.13.0, nn/parallel/data_parallel.py",
        (Wrap((Arg("module"),), (), classes=("torch.nn.DataParallel",)),),
        aliases=("torch.nn.parallel.DataParallel",),
    ),
    Row(
        FSDP,
        "module, process_group=None, sharding_strategy=None, cpu_offload=None, auto_wrap_policy=None, "
        "backward_prefetch=..., mixed_precision=None, ignored_modules=None, param_init_fn=None, device_id=None, "
        "sync_module_states=False, forward_prefetch=False, limit_all_gathers=True, use_orig_params=False, "
        "ignored_states=None, device_mesh=None",
        f"{FSDP_SOURCE}:194",
        (Wrap((Arg("module"),), (), classes=(FSDP,)),),
        assumes=AVERAGED,
    ),
    Row(
        f"{FSDP}.no_sync",
        "",
        f"{FSDP_SOURCE}:1034",
        (SetSync(Receiver(), on=Const(False)),),
        undo=(SetSync(Receiver(), on=Const(True)),),
    ),
    Row(
        f"{FSDP}.clip_grad_norm_",
        "max_norm, norm_type=2.0",
        f"{FSDP_SOURCE}:1074",
        (Clip(Receiver(), kind="norm", limit=Arg("max_norm")),),
        assumes=("the clip is active",),
    ),
    Row(
        "torch.distributed.fsdp.fully_shard",
        "module, *, mesh=None, reshard_after_forward=None, shard_placement_fn=None, mp_policy=..., "
        "offload_policy=..., ignored_params=None, dp_mesh_dims=None",
        FSDP2_SOURCE,
        (Wrap((Arg("module"),), (), classes=(FSDP2,), in_place=True),),
        assumes=AVERAGED,
        aliases=("torch.distributed._composable.fsdp.fully_shard",),
    ),
    Row(
        f"{FSDP2}.set_requires_gradient_sync",
        "requires_gradient_sync, *, recurse=True",
        f"{FSDP2_SOURCE}:413",
        (SetSync(Receiver(), on=Arg("requires_gradient_sync")),),
    ),
    Row(  # only the all-reduce of hybrid sharding; reduce-scatter goes on
        f"{FSDP2}.set_requires_all_reduce",
        "requires_all_reduce, *, recurse=True",
        FSDP2_SOURCE,
        (SetSync(Receiver(), on=Arg("requires_all_reduce")),),
    ),
    Row(f"{FSDP2}.set_is_last_backward", "is_last_backward", FSDP2_SOURCE, ()),
    Row(
        f"{FSDP2}.set_gradient_divide_factor",
        "factor",
        f"{FSDP2_SOURCE}:646",
        (RankDivisor(Receiver(), Arg("factor")),),
        assumes=("the factor is set on every FSDP module: it is not recursive",),
    ),
    Row(
        f"{FSDP2}.set_reduce_scatter_divide_factor",
        "factor",
        FSDP2_SOURCE,
        (RankDivisor(Receiver(), Arg("factor")),),
        assumes=("the factor is set on every FSDP module: it is not recursive",),
    ),
)

CLASSES = (
    ClassRow(
        DDP,
        bases=(MODULE,),
        role=Role.WRAPPED_MODEL,
        attributes=(("module", Receiver()), ("require_backward_grad_sync", Const(True))),
    ),
    ClassRow("torch.nn.DataParallel", bases=(MODULE,), role=Role.MODEL, attributes=(("module", Receiver()),)),
    ClassRow(FSDP, bases=(MODULE,), role=Role.WRAPPED_MODEL, attributes=(("module", Receiver()),)),
    ClassRow(FSDP2, bases=(MODULE,), role=Role.WRAPPED_MODEL),
)

RENAMES = (
    Rename("torch.nn.parallel.distributed", "torch.nn.parallel"),
    Rename("torch.nn.parallel.data_parallel", "torch.nn.parallel"),
    Rename("torch.distributed.fsdp.fully_sharded_data_parallel", "torch.distributed.fsdp"),
)
