"""TRL: trainers derived from transformers.Trainer, and whether each normalises its loss itself."""

from accumlint.apis.language import ClassRow, Const, Role, Row

BASE = "transformers.Trainer"
SCALED = {
    "trl.SFTTrainer": True,  # its own sum over num_items_in_batch
    "trl.GRPOTrainer": True,  # divides by the current number of steps or by the global tokens itself
    "trl.DPOTrainer": False,
    "trl.RewardTrainer": False,
    "trl.KTOTrainer": False,
    "trl.RLOOTrainer": False,
}

ROWS = tuple(
    Row(f"{name}.train", "*args, **kwargs", "trl 1.16.0, trainer/base_trainer.py:64-81", ()) for name in SCALED
)

CLASSES = tuple(
    ClassRow(name, bases=(BASE,), role=Role.TRAINER, attributes=(("loss_is_scaled_for_ga", Const(scaled)),))
    for name, scaled in SCALED.items()
)
