"""torch.nn.utils: clipping, and the norms that go with it."""

from accumlint.apis.language import Arg, Clip, Rename, Row

SOURCE = "torch 2.13.0, nn/utils/clip_grad.py"
ACTIVE = ("the clip is active",)
NORM = "parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None"

ROWS = (
    Row(
        "torch.nn.utils.clip_grad_norm_",
        NORM,
        f"{SOURCE}:131-167",
        (Clip(Arg("parameters"), kind="norm", limit=Arg("max_norm")),),
        assumes=ACTIVE,
    ),
    Row(  # deprecated spelling, still exported
        "torch.nn.utils.clip_grad_norm",
        NORM,
        SOURCE,
        (Clip(Arg("parameters"), kind="norm", limit=Arg("max_norm")),),
        assumes=ACTIVE,
    ),
    Row(
        "torch.nn.utils.clip_grad_value_",
        "parameters, clip_value, foreach=None",
        SOURCE,
        (Clip(Arg("parameters"), kind="value", limit=Arg("clip_value")),),
        assumes=ACTIVE,
    ),
    Row(
        "torch.nn.utils.clip_grads_with_norm_",
        "parameters, max_norm, total_norm, foreach=None",
        SOURCE,
        (Clip(Arg("parameters"), kind="norm", limit=Arg("max_norm")),),
        assumes=ACTIVE,
    ),
    Row(
        "torch.nn.utils.get_total_norm",
        "tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None",
        SOURCE,
        (),
    ),
)

RENAMES = (Rename("torch.nn.utils.clip_grad", "torch.nn.utils"),)
