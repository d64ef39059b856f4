"""Losses of other libraries: normalised per element, per row or per valid target, and the batch-coupled ones.

The releases named here, torchtune and open_clip apart, were not at hand when the rows were written: the
signatures are from their documentation.
"""

from accumlint.apis.language import (
    Arg,
    Attr,
    Const,
    Count,
    Loss,
    Make,
    Operand,
    PatternRow,
    Rename,
    Role,
    Row,
)

COUPLED = ("accumlint.MetricLoss", "embeddings, labels=None, *args, **kwargs", "embeddings")


def loss(
    name: str,
    constructor: str,
    forward: str,
    source: str,
    count: Count,
    *,
    inputs: str,
    targets: str,
    reduction: Operand | None = None,
    ignore: bool = False,
    separable: bool = True,
) -> tuple[Row, ...]:
    """A loss class: its constructor and its call."""
    copied = [("reduction", reduction)] if reduction is not None else []
    if ignore:
        copied.append(("ignore_index", Arg("ignore_index")))
    made = Make(Role.LOSS_FUNCTION, attributes=tuple(copied))
    called = Loss(
        Attr("reduction") if reduction is not None else Const("mean"),
        targets=Arg(targets),
        count=count,
        ignore=Attr("ignore_index") if ignore else None,
        inputs=Arg(inputs),
        separable=separable,
        sum_form="reduction='sum'" if isinstance(reduction, Arg) else "",
    )
    return (
        Row(name, constructor, source, (made,)),
        Row(f"{name}.__call__", forward, source, (called,), aliases=(f"{name}.forward",)),
    )


GIVEN = Arg("reduction")

ROWS = (
    *loss(
        "timm.loss.LabelSmoothingCrossEntropy",
        "smoothing=0.1",
        "x, target",
        "timm 1.0, loss/cross_entropy.py",
        Count.ROWS,
        inputs="x",
        targets="target",
    ),
    *loss(
        "timm.loss.SoftTargetCrossEntropy",
        "",
        "x, target",
        "timm 1.0, loss/cross_entropy.py",
        Count.ROWS,
        inputs="x",
        targets="target",
    ),
    *loss(
        "flash_attn.losses.cross_entropy.CrossEntropyLoss",
        "ignore_index=-100, reduction='mean', *args, **kwargs",
        "input, target, precomputed_lse=None",
        "flash-attn 2.8.3, losses/cross_entropy.py",
        Count.VALID_TARGETS,
        inputs="input",
        targets="target",
        reduction=GIVEN,
        ignore=True,
    ),
    *loss(
        "liger_kernel.transformers.LigerCrossEntropyLoss",
        "ignore_index=-100, lse_square_scale=0.0, label_smoothing=0.0, reduction='mean', *args, **kwargs",
        "_input, target",
        "liger-kernel 0.6.2, transformers/cross_entropy.py",
        Count.VALID_TARGETS,
        inputs="_input",
        targets="target",
        reduction=GIVEN,
        ignore=True,
    ),
    *loss(
        "torchtune.modules.loss.CEWithChunkedOutputLoss",
        "num_output_chunks=8, ignore_index=-100",
        "logits, labels",
        "torchtune 0.6.1, modules/loss/ce_chunked_output_loss.py:13",
        Count.VALID_TARGETS,
        inputs="logits",
        targets="labels",
        ignore=True,
    ),
    Row(
        "torchvision.ops.sigmoid_focal_loss",
        "inputs, targets, alpha=0.25, gamma=2, reduction='none'",
        "torchvision 0.20.0, ops/focal_loss.py",
        (Loss(Arg("reduction"), targets=Arg("targets"), count=Count.ELEMENTS, inputs=Arg("inputs")),),
        aliases=("torchvision.ops.focal_loss.sigmoid_focal_loss",),
    ),
    # Batch-coupled: each target's loss depends on the other rows of the microbatch.
    *loss(
        COUPLED[0],
        "*args, **kwargs",
        COUPLED[1],
        "pytorch-metric-learning 2.9.0, losses/base_metric_loss_function.py",
        Count.ROWS,
        inputs=COUPLED[2],
        targets=COUPLED[2],
        separable=False,
    ),
    *loss(
        "info_nce.InfoNCE",
        "temperature=0.1, reduction='mean', negative_mode='unpaired'",
        "query, positive_key, negative_keys=None",
        "info-nce-pytorch 0.1.4, info_nce/__init__.py",
        Count.ROWS,
        inputs="query",
        targets="positive_key",
        reduction=GIVEN,
        separable=False,
    ),
    Row(
        "info_nce.info_nce",
        "query, positive_key, negative_keys=None, temperature=0.1, reduction='mean', negative_mode='unpaired'",
        "info-nce-pytorch 0.1.4, info_nce/__init__.py",
        (
            Loss(
                Arg("reduction"),
                targets=Arg("positive_key"),
                count=Count.ROWS,
                inputs=Arg("query"),
                separable=False,
            ),
        ),
    ),
    *loss(
        "open_clip.ClipLoss",
        "*args, **kwargs",
        "image_features, text_features, logit_scale=None, *args, **kwargs",
        "open_clip_torch 3.3.0, loss.py:68",
        Count.ROWS,
        inputs="image_features",
        targets="text_features",
        separable=False,
    ),
    *loss(
        "accumlint.BatchDiceLoss",
        "*args, **kwargs",
        "y_pred, y_true, *args, **kwargs",
        "segmentation-models-pytorch 0.5.0, losses/dice.py",
        Count.ROWS,
        inputs="y_pred",
        targets="y_true",
        separable=False,
    ),
)

PATTERNS = (
    PatternRow("pytorch_metric_learning.losses.[A-Z]*", COUPLED[0]),
    PatternRow("lightly.loss.[A-Z]*", COUPLED[0]),
    PatternRow("open_clip.[A-Z]*Loss", "open_clip.ClipLoss"),
    *(
        PatternRow(f"segmentation_models_pytorch.losses.{name}", "accumlint.BatchDiceLoss")
        for name in ("DiceLoss", "JaccardLoss", "TverskyLoss", "LovaszLoss")
    ),
)

RENAMES = (
    Rename("timm.loss.cross_entropy", "timm.loss"),
    Rename("open_clip.loss", "open_clip"),
    Rename("liger_kernel.transformers.cross_entropy", "liger_kernel.transformers"),
    Rename("segmentation_models_pytorch.losses.dice", "segmentation_models_pytorch.losses"),
)
