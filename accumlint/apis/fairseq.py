"""fairseq: sums are normalised on the gradients by the optimizer's own `multiply_grads`.

The release was not at hand when the rows were written: the signatures are from its documentation.
"""

from accumlint.apis.language import (
    Arg,
    Backward,
    ClassRow,
    Clear,
    Clip,
    Make,
    Receiver,
    Rename,
    Role,
    Row,
    ScaleGradients,
    Step,
)

OPTIMIZER = "fairseq.optim.FairseqOptimizer"
FP16 = "fairseq.optim.FP16Optimizer"
MEMORY_FP16 = "fairseq.optim.MemoryEfficientFP16Optimizer"
SOURCE = "fairseq 0.12.2, optim/fairseq_optimizer.py"

ROWS = (
    *(
        Row(name, parameters, source, (Make(Role.OPTIMIZER, canonical=OPTIMIZER),))
        for name, parameters, source in (
            ("fairseq.optim.build_optimizer", "cfg, params, *args, **kwargs", "fairseq 0.12.2, registry.py"),
            (f"{FP16}.build_optimizer", "cfg, params, **kwargs", "fairseq 0.12.2, optim/fp16_optimizer.py"),
            (f"{MEMORY_FP16}.build_optimizer", "cfg, params, **kwargs", "fairseq 0.12.2, optim/fp16_optimizer.py"),
        )
    ),
    Row(f"{OPTIMIZER}.backward", "loss", SOURCE, (Backward(Arg("loss")),)),
    Row(f"{OPTIMIZER}.multiply_grads", "c", SOURCE, (ScaleGradients(Receiver(), by=Arg("c")),)),
    Row(
        f"{OPTIMIZER}.clip_grad_norm",
        "max_norm, aggregate_norm_fn=None",
        SOURCE,
        (Clip(Receiver(), kind="norm", limit=Arg("max_norm")),),
        assumes=("the clip is active",),
    ),
    Row(f"{OPTIMIZER}.step", "closure=None, scale=1.0, groups=None", SOURCE, (Step(Receiver()),)),
    Row(f"{OPTIMIZER}.zero_grad", "", SOURCE, (Clear(Receiver()),)),
    Row(
        "fairseq.utils.clip_grad_norm_",
        "params, max_norm, aggregate_norm_fn=None",
        "fairseq 0.12.2, utils.py",
        (Clip(Arg("params"), kind="norm", limit=Arg("max_norm")),),
        assumes=("the clip is active",),
    ),
)

CLASSES = (
    ClassRow(OPTIMIZER, role=Role.OPTIMIZER),
    *(
        ClassRow(f"fairseq.optim.{name}", bases=(OPTIMIZER,), role=Role.OPTIMIZER)
        for name in (
            "FairseqAdam",
            "FP16Optimizer",
            "MemoryEfficientFP16Optimizer",
            "adam.FairseqAdam",
            "sgd.SGD",
            "nag.FairseqNAG",
            "adagrad.Adagrad",
            "adadelta.Adadelta",
            "adamax.FairseqAdamax",
            "adafactor.FairseqAdafactor",
            "fused_lamb.FairseqLAMB",
            "fp16_optimizer.FP16Optimizer",
        )
    ),
)

RENAMES = (Rename("fairseq.optim.fairseq_optimizer", "fairseq.optim"),)
