"""torch.distributed: counts over the ranks. Names of reduction constants are compared as canonical dotted names."""

from accumlint.apis.language import AllReduce, Arg, Effect, Forget, Is, Rename, Row, WorldSize

SOURCE = "torch 2.13.0, distributed/distributed_c10d.py"
SUM = "torch.distributed.ReduceOp.SUM"
AVG = "torch.distributed.ReduceOp.AVG"
OTHER = (Is(Arg("op"), SUM, negated=True), Is(Arg("op"), AVG, negated=True))


def reduces(tensor: str, *, yields: bool = False) -> tuple[Effect, ...]:
    """Sum or mean over the ranks by `op`; another operation leaves something unknown."""
    operand = Arg(tensor)
    return (
        AllReduce(operand, yields=yields, when=(Is(Arg("op"), SUM, unknown=True),)),
        AllReduce(operand, yields=yields, mean=True, when=(Is(Arg("op"), AVG),)),
        Forget((operand,), when=OTHER),
    )


ROWS = (
    Row("torch.distributed.all_reduce", f"tensor, op={SUM}, group=None, async_op=False", SOURCE, reduces("tensor")),
    Row(
        "torch.distributed.reduce",
        f"tensor, dst=None, op={SUM}, group=None, async_op=False, group_dst=None",
        SOURCE,
        reduces("tensor"),
        assumes=("only the rank that receives the sum uses it",),
    ),
    Row(
        "torch.distributed.nn.all_reduce",
        f"tensor, op={SUM}, group=...",
        "torch 2.13.0, distributed/nn/functional.py",
        reduces("tensor", yields=True),
        aliases=("torch.distributed.nn.functional.all_reduce",),
    ),
    Row(
        "torch.distributed._functional_collectives.all_reduce",
        "self, reduceOp, group, tag=''",
        "torch 2.13.0, distributed/_functional_collectives.py",
        (
            AllReduce(Arg("self"), yields=True, when=(Is(Arg("reduceOp"), "sum", unknown=True),)),
            AllReduce(Arg("self"), yields=True, mean=True, when=(Is(Arg("reduceOp"), "avg"),)),
        ),
    ),
    Row(
        "torch.distributed.all_gather",
        "tensor_list, tensor, group=None, async_op=False",
        SOURCE,
        (Forget((Arg("tensor_list"),)),),
    ),
    Row(
        "torch.distributed.all_gather_into_tensor",
        "output_tensor, input_tensor, group=None, async_op=False",
        SOURCE,
        (Forget((Arg("output_tensor"),)),),
    ),
    Row(
        "torch.distributed.all_gather_object", "object_list, obj, group=None", SOURCE, (Forget((Arg("object_list"),)),)
    ),
    Row(
        "torch.distributed.reduce_scatter_tensor",
        f"output, input, op={SUM}, group=None, async_op=False",
        SOURCE,
        (Forget((Arg("output"),)),),
    ),
    Row(
        "torch.distributed.broadcast",
        "tensor, src=None, group=None, async_op=False, group_src=None",
        SOURCE,
        (),
        assumes=("a tensor that is broadcast is the same on all ranks already, or is no count",),
    ),
    Row("torch.distributed.get_world_size", "group=None", SOURCE, (WorldSize(),)),
    Row("torch.distributed.get_rank", "group=None", SOURCE, ()),
    Row("torch.distributed.barrier", "group=None, async_op=False, device_ids=None, timeout=None", SOURCE, ()),
    Row("torch.distributed.is_initialized", "", SOURCE, ()),
    Row("torch.distributed.is_available", "", "torch 2.13.0, distributed/__init__.py", ()),
    Row("torch.distributed.is_nccl_available", "", SOURCE, ()),
    Row("torch.distributed.destroy_process_group", "group=None", SOURCE, ()),
    Row(
        "torch.distributed.init_process_group",
        "backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name='', "
        "pg_options=None, device_id=None, _ranks=None",
        SOURCE,
        (),
    ),
    Row(
        "torch.distributed.device_mesh.init_device_mesh",
        "device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None",
        "torch 2.13.0, distributed/device_mesh.py",
        (),
    ),
    Row("torch.cuda.device_count", "", "torch 2.13.0, cuda/__init__.py", ()),
)


RENAMES = (
    Rename("torch.distributed.distributed_c10d", "torch.distributed"),
    Rename("torch.distributed.ReduceOp.RedOpType", "torch.distributed.ReduceOp"),
    Rename("torch.distributed.reduce_op", "torch.distributed.ReduceOp"),
)
