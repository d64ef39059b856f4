"""NVIDIA apex, deprecated but common: amp and its clip targets.

`scale_loss` scales only the gradients of its own block and takes the factor out on leaving (earlier gradients of the
window are kept apart), so seen from outside the loss is unscaled.

The release was not at hand when the rows were written: the signatures are from its documentation.
"""

from accumlint.apis.language import Arg, Const, Is, Make, Receiver, Role, Row, SetSync, Wrap, Yields

DDP = "apex.parallel.DistributedDataParallel"
SOURCE = "apex 0.1, amp/handle.py"

ROWS = (
    Row(
        "apex.amp.initialize",
        "models, optimizers=None, enabled=True, opt_level='O1', cast_model_type=None, patch_torch_functions=None, "
        "keep_batchnorm_fp32=None, master_weights=None, loss_scale=None, cast_model_outputs=None, num_losses=1, "
        "verbosity=1, min_loss_scale=None, max_loss_scale=16777216.0",
        "apex 0.1, amp/frontend.py",
        (
            Yields(Arg("models"), when=(Is(Arg("optimizers"), None),)),
            Wrap(
                (Arg("models"), Arg("optimizers")), (), when=(Is(Arg("optimizers"), None, negated=True, unknown=True),)
            ),
        ),
    ),
    Row(
        "apex.amp.scale_loss",
        "loss, optimizers, loss_id=0, model=None, delay_unscale=False, delay_overflow_check=False",
        SOURCE,
        (Yields(Arg("loss")),),
        assumes=("apex takes the loss scale out of the gradient itself; with delay_unscale, before it is used",),
    ),
    Row(
        "apex.amp.master_params",
        "optimizer",
        "apex 0.1, amp/_amp_state.py",
        (Make(Role.PARAMETERS, of=(Arg("optimizer"),)),),
    ),
    Row("apex.amp.state_dict", "*args, **kwargs", "apex 0.1, amp/frontend.py", ()),
    Row("apex.amp.load_state_dict", "state_dict", "apex 0.1, amp/frontend.py", ()),
    Row(
        DDP,
        "module, message_size=10000000, delay_allreduce=False, **kwargs",
        "apex 0.1, parallel/distributed.py",
        (Wrap((Arg("module"),), (), classes=("torch.nn.parallel.DistributedDataParallel",)),),
    ),
    Row(
        f"{DDP}.disable_allreduce",
        "",
        "apex 0.1, parallel/distributed.py",
        (SetSync(Receiver(), on=Const(False)),),
    ),
    Row(f"{DDP}.enable_allreduce", "", "apex 0.1, parallel/distributed.py", (SetSync(Receiver(), on=Const(True)),)),
    Row(
        "apex.parallel.convert_syncbn_model",
        "module, **kwargs",
        "apex 0.1, parallel/__init__.py",
        (Yields(Arg("module")),),
    ),
)
