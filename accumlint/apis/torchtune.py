"""torchtune and torchtitan: deferred normalisation on the gradients, and their losses' helpers."""

from accumlint.apis.language import AllReduce, Arg, Clip, Make, Rename, Role, Row, ScaleGradients, WorldSize, Wrap

ROWS = (
    Row(
        "torchtune.training.scale_grads",
        "model, scaler",
        "torchtune 0.6.1, training/_grad_scaler.py:11-31",
        (ScaleGradients(Arg("model"), by=Arg("scaler")),),
        aliases=("torchtune.utils.scale_grads", "torchtune.training.scale_grads_"),
    ),
    Row(
        "torchtune.training.shard_model",
        "model, shard_conditions, *, cpu_offload, reshard_after_forward=True, dp_mesh=None",
        "torchtune 0.6.1, training/_distributed.py:519-560",
        (Wrap((Arg("model"),), (), classes=("torch.distributed.fsdp.FSDPModule",), in_place=True),),
        assumes=("gradients are averaged over the ranks: no communication hook changes that",),
    ),
    Row(
        "torchtune.training.get_world_size_and_rank",
        "",
        "torchtune 0.6.1, training/_distributed.py",
        (WorldSize(and_rank=True),),
        aliases=("torchtune.utils.get_world_size_and_rank",),
    ),
    Row(
        "torchtune.training.get_cosine_schedule_with_warmup",
        "optimizer, num_warmup_steps, num_training_steps, num_cycles=0.5, last_epoch=-1",
        "torchtune 0.6.1, training/lr_schedulers.py",
        (Make(Role.SCHEDULER, of=(Arg("optimizer"),), canonical="torch.optim.lr_scheduler.LRScheduler"),),
        aliases=("torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup",),
    ),
    Row(
        "torchtitan.distributed.utils.dist_sum",
        "x, mesh, extra_pg=None",
        "torchtitan 0.3.0, trainer.py:880-948",
        (AllReduce(Arg("x"), yields=True),),
    ),
    Row(
        "torchtitan.distributed.utils.dist_mean",
        "x, mesh, extra_pg=None",
        "torchtitan 0.3.0, distributed/utils.py",
        (AllReduce(Arg("x"), yields=True, mean=True),),
    ),
    Row(
        "torchtitan.distributed.utils.clip_grad_norm_",
        "parameters, max_norm, *args, **kwargs",
        "torchtitan 0.3.0, distributed/utils.py",
        (Clip(Arg("parameters"), kind="norm", limit=Arg("max_norm")),),
        assumes=("the clip is active",),
    ),
)

RENAMES = (Rename("torchtune.training._grad_scaler", "torchtune.training"),)
