"""`check_repaired` accepts repairs that were written by hand and are right, and refuses near misses."""

from __future__ import annotations

import pytest
from truth import check_repaired, codes_of, scripts

SCRIPTS = dict(scripts())

# name -> (old, new) pairs; each old text stands in the script exactly once
BY_HAND: dict[str, list[tuple[str, str]]] = {
    "acc101_ignore_index_dataclass": [
        ("ignore_index=IGNORE)", 'ignore_index=IGNORE, reduction="sum")'),
        ("        for idx", "        n = 0\n        for idx"),
        (
            "labels) / cfg.grad_accum\n",
            "labels)\n            n += int((labels[:, 1:] != IGNORE).sum())\n",
        ),
        (
            "                torch.nn.utils.clip",
            "                for p in model.parameters():\n"
            "                    p.grad /= max(n, 1)\n"
            "                n = 0\n"
            "                torch.nn.utils.clip",
        ),
    ],
    "acc103_nanogpt_forgot_division": [("loss.backward()", "(loss / grad_accum_steps).backward()")],
    "acc104_helper_and_loop": [("self.scaled_loss(x, y) / self.accum_steps", "self.scaled_loss(x, y)")],
    "acc201_clip_after_each_backward": [
        ("            torch.nn.utils.clip_grad_norm_", "        torch.nn.utils.clip_grad_norm_"),
    ],
    "acc202_clip_scaled_grads": [
        ("        torch.nn.utils.clip", "        scaler.unscale_(optimizer)\n        torch.nn.utils.clip"),
    ],
    "acc304_leaks_into_next_epoch": [
        ("(x, y) in enumerate(loader):\n", "(x, y) in enumerate(loader):\n            first = i // accum * accum\n"),
        ("F.cross_entropy(model(x), y) / accum", "F.cross_entropy(model(x), y) / min(accum, len(loader) - first)"),
        ("(i + 1) % accum == 0:", "(i + 1) % accum == 0 or i + 1 == len(loader):"),
    ],
    "acc306_scheduler_each_micro": [
        ("            scheduler.step()", "            pass"),
        ("        optimizer.step()\n", "        optimizer.step()\n        scheduler.step()\n"),
    ],
    "acc201_accelerate_unguarded_clip": [
        (
            "            accelerator.clip",
            "            if accelerator.sync_gradients:\n                accelerator.clip",
        ),
    ],
}  # fmt: skip
# a right repair spoilt at one place
NEAR_MISSES: dict[str, list[tuple[str, str]]] = {
    "acc101_ignore_index_dataclass": [
        ("labels[:, 1:] != IGNORE", "labels != IGNORE"),  # unshifted count
        ("                n = 0\n", ""),  # not reset
        (" or is_last", ""),  # no flush
        ("n += int(", "n = int("),  # last count
        ("p.grad /= max(n, 1)", "p.grad /= cfg.grad_accum"),
    ],
    "acc202_clip_scaled_grads": [
        ("        scaler.unscale_(optimizer)\n", ""),
        (
            "            scaler.scale(loss).backward()\n",
            "            scaler.scale(loss).backward()\n            scaler.update()\n",
        ),
    ],
    "acc306_scheduler_each_micro": [("            pass", "            scheduler.step()")],
}


def replaced(text: str, pairs: list[tuple[str, str]]) -> str:
    for old, new in pairs:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times"
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("name", BY_HAND)
def test_a_right_repair_is_accepted(name: str) -> None:
    original = SCRIPTS[name].read_text(encoding="utf-8")
    reports = check_repaired(name, replaced(original, BY_HAND[name]))
    assert all(report.steps for report in reports.values())
    with pytest.raises(AssertionError):
        check_repaired(name, original)
    check_repaired(name, original, codes_of(original))  # what is still reported is no surprise


@pytest.mark.parametrize(("name", "miss"), [(name, miss) for name, misses in NEAR_MISSES.items() for miss in misses])
def test_a_near_miss_is_refused(name: str, miss: tuple[str, str]) -> None:
    right = replaced(SCRIPTS[name].read_text(encoding="utf-8"), BY_HAND[name])
    with pytest.raises(AssertionError):
        check_repaired(name, replaced(right, [miss]))
