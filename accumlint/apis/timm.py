"""timm and MAE: one callable hides scaling, backward, clip and step; the scaling is undone inside.

The release was not at hand when the rows were written: the signatures are from its documentation.
"""

from accumlint.apis.language import Arg, Backward, Clip, Effect, Is, Make, PatternRow, Rename, Role, Row, Step

SCALER = "timm.utils.NativeScaler"
NORM_COUNT = "accumlint.NativeScalerWithGradNormCount"
SOURCE = "timm 1.0, utils/cuda.py"
CLIPS = Is(Arg("clip_grad"), None, negated=True, unknown=True)


def hidden_step(updates: Is, *clips: Effect) -> tuple[Effect, ...]:
    return (Backward(Arg("loss")), *clips, Step(Arg("optimizer"), when=(updates,)))


NEEDED = Is(Arg("need_update"), True, unknown=True)
UPDATED = Is(Arg("update_grad"), True, unknown=True)

ROWS = (
    Row(SCALER, "device='cuda'", SOURCE, (Make(Role.STEPPER),)),
    Row(
        f"{SCALER}.__call__",
        "loss, optimizer, clip_grad=None, clip_mode='norm', parameters=None, create_graph=False, need_update=True",
        SOURCE,
        hidden_step(
            NEEDED,
            Clip(
                Arg("parameters"),
                "value",
                Arg("clip_grad"),
                when=(NEEDED, CLIPS, Is(Arg("clip_mode"), "value")),
            ),
            Clip(
                Arg("parameters"),
                "norm",
                Arg("clip_grad"),
                when=(NEEDED, CLIPS, Is(Arg("clip_mode"), "value", negated=True, unknown=True)),
            ),
        ),
        assumes=("no inf or nan in the window, so the step is not skipped",),
    ),
    # The class that MAE and its many descendants copy; it lives in the user's own `util.misc`.
    Row(NORM_COUNT, "*args, **kwargs", "timm 1.0, as copied by MAE's util/misc.py", (Make(Role.STEPPER),)),
    Row(
        f"{NORM_COUNT}.__call__",
        "loss, optimizer, clip_grad=None, parameters=None, create_graph=False, update_grad=True",
        "timm 1.0, as copied by MAE's util/misc.py",
        hidden_step(UPDATED, Clip(Arg("parameters"), "norm", Arg("clip_grad"), when=(UPDATED, CLIPS))),
        assumes=("the file's NativeScalerWithGradNormCount is MAE's", "no inf or nan in the window"),
    ),
    Row(
        "timm.utils.dispatch_clip_grad",
        "parameters, value, mode='norm', norm_type=2.0",
        "timm 1.0, utils/clip_grad.py",
        (
            Clip(Arg("parameters"), "value", Arg("value"), when=(Is(Arg("mode"), "value"),)),
            Clip(Arg("parameters"), "norm", Arg("value"), when=(Is(Arg("mode"), "value", negated=True, unknown=True),)),
        ),
        assumes=("the clip is active",),
    ),
    Row(
        "timm.utils.adaptive_clip_grad",
        "parameters, clip_factor=0.01, eps=1e-3, norm_type=2.0",
        "timm 1.0, utils/agc.py",
        (Clip(Arg("parameters"), "norm", Arg("clip_factor")),),
    ),
)

PATTERNS = tuple(
    PatternRow(f"{module}.NativeScalerWithGradNormCount", NORM_COUNT)
    for module in ("util.misc", "utils", "misc", "utils.misc", "util.utils", "utils.utils")
)

RENAMES = (
    Rename("timm.utils.cuda", "timm.utils"),
    Rename("timm.utils.clip_grad", "timm.utils"),
    Rename("timm.utils.agc", "timm.utils"),
)
