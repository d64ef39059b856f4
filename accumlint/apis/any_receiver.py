"""Methods that mean one thing on whatever has them: used where nothing is known of the receiver.

A model handed in by a caller, an engine made in another file: `no_sync`, `zero_grad` and `manual_backward` are
unmistakable. `step`, `accumulate` and `clip_grad_norm_` are not, so they are not here.
"""

from accumlint.apis.language import (
    Arg,
    Backward,
    Clear,
    Const,
    Effect,
    Is,
    RankDivisor,
    Receiver,
    Row,
    ScaleGradients,
    SetMode,
    SetSync,
    Yields,
)

ANY = "accumlint.AnyReceiver"
DDP = "torch 2.13.0, nn/parallel/distributed.py:1659-1685"
FSDP2 = "torch 2.13.0, distributed/fsdp/_fully_shard/_fully_shard.py"
GIVEN = Is(Arg("model"), None, negated=True, unknown=True)


def switched(on: bool) -> tuple[Effect, ...]:
    """`model.no_sync()` and `accelerator.no_sync(model)`."""
    return (
        SetSync(Receiver(), on=Const(on), when=(Is(Arg("model"), None),)),
        SetSync(Arg("model"), on=Const(on), when=(GIVEN,)),
    )


ROWS = (
    Row(  # `strategy.backward(loss)`: an object that is no loss itself runs the backward of the one it is given
        f"{ANY}.backward_of",
        "loss, *args, **kwargs",
        "torch 2.13.0, _tensor.py",
        (Backward(Arg("loss")),),
        assumes=("a wrapper's backward divides the loss by nothing",),
    ),
    Row(f"{ANY}.zero_grad", "set_to_none=True", "torch 2.13.0, nn/modules/module.py", (Clear(Receiver()),)),
    Row(
        f"{ANY}.train",
        "mode=True",
        "torch 2.13.0, nn/modules/module.py",
        (SetMode(Receiver(), Arg("mode")), Yields(Receiver())),
    ),
    Row(
        f"{ANY}.eval",
        "",
        "torch 2.13.0, nn/modules/module.py",
        (SetMode(Receiver(), Const(False)), Yields(Receiver())),
    ),
    Row(f"{ANY}.no_sync", "model=None", DDP, switched(False), undo=switched(True)),
    Row(
        f"{ANY}.no_backward_sync",
        "module, enabled=True",
        "lightning 2.6.6, fabric/fabric.py:733-768",
        (SetSync(Arg("module"), on=Arg("enabled"), negate=True),),
        undo=(SetSync(Arg("module"), on=Const(True)),),
    ),
    Row(
        f"{ANY}.manual_backward",
        "loss, *args, **kwargs",
        "lightning 2.6.6, pytorch/core/module.py:1092",
        (Backward(Arg("loss")),),
    ),
    Row(
        f"{ANY}.set_requires_gradient_sync",
        "requires_gradient_sync, *, recurse=True",
        f"{FSDP2}:413",
        (SetSync(Receiver(), on=Arg("requires_gradient_sync")),),
    ),
    Row(
        f"{ANY}.set_gradient_divide_factor",
        "factor",
        f"{FSDP2}:646",
        (RankDivisor(Receiver(), Arg("factor")),),
        assumes=("the factor is set on every FSDP module: it is not recursive",),
    ),
    Row(
        f"{ANY}.multiply_grads",
        "c",
        "fairseq 0.12.2, optim/fairseq_optimizer.py",
        (ScaleGradients(Receiver(), by=Arg("c")),),
    ),
)
