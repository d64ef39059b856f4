"""The kinds of wrong repair, each a transformation of a right loop's marked lines. None where a kind does not apply."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.mutants.bases import Base


@dataclass(frozen=True)
class Line:
    indent: int
    text: str
    marks: tuple[str, ...] = ()


Lines = list[Line]
MARK = re.compile(r"  # @([\w ]+)$")


def read(text: str) -> Lines:
    lines = []
    for raw in text.strip("\n").split("\n"):
        found = MARK.search(raw)
        body = raw[: found.start()] if found else raw
        lines.append(Line(len(body) - len(body.lstrip()), body.strip(), tuple(found[1].split()) if found else ()))
    return lines


def write(lines: Lines) -> str:
    return "\n".join(" " * line.indent + line.text if line.text else "" for line in lines) + "\n"


class MissingError(Exception):
    """The loop has no line with this mark: the kind does not apply."""


def at(lines: Lines, mark: str) -> int:
    for number, line in enumerate(lines):
        if mark in line.marks:
            return number
    raise MissingError(mark)


def drop(lines: Lines, mark: str) -> Lines:
    at(lines, mark)
    return [line for line in lines if mark not in line.marks]


def edit(lines: Lines, mark: str, old: str, new: str) -> Lines:
    number = at(lines, mark)
    if old not in lines[number].text:
        raise MissingError(f"{mark}: {old}")
    return [*lines[:number], replace(lines[number], text=lines[number].text.replace(old, new)), *lines[number + 1 :]]


def after(lines: Lines, mark: str, text: str) -> Lines:
    number = at(lines, mark)
    return [*lines[: number + 1], Line(lines[number].indent, text), *lines[number + 1 :]]


def before(lines: Lines, mark: str, text: str) -> Lines:
    number = at(lines, mark)
    return [*lines[:number], Line(lines[number].indent, text), *lines[number:]]


def after_block(lines: Lines, mark: str, text: str) -> Lines:
    """Insert a line behind the block that the marked line opens."""
    start = at(lines, mark)
    end = start + 1
    while end < len(lines) and lines[end].indent > lines[start].indent:
        end += 1
    return [*lines[:end], Line(lines[start].indent, text), *lines[end:]]


def move_before(lines: Lines, mark: str, target: str) -> Lines:
    moved = lines[at(lines, mark)]
    rest = drop(lines, mark)
    number = at(rest, target)
    return [*rest[:number], replace(moved, indent=rest[number].indent), *rest[number:]]


def move_after(lines: Lines, mark: str, target: str) -> Lines:
    moved = lines[at(lines, mark)]
    rest = drop(lines, mark)
    number = at(rest, target)
    return [*rest[: number + 1], replace(moved, indent=rest[number].indent), *rest[number + 1 :]]


def text(lines: Lines, mark: str) -> str:
    return lines[at(lines, mark)].text


def in_micro(lines: Lines, mark: str) -> Lines:
    """Move a line of the update to right after the backward."""
    if "DistributedDataParallel" in write(lines):
        raise MissingError("inside no_sync")
    return move_after(lines, mark, "backward")


def divisor(lines: Lines) -> tuple[str, str]:
    """(mark, text) of the window's divisor: on the gradients (deferred) or on the loss (pre-count)."""
    for mark in ("div", "backward"):
        try:
            found = re.search(r"/ (max\(.*?, 1\)|n\.clamp\(min=1\)|n\b)", text(lines, mark))
        except MissingError:
            continue
        if found:
            return mark, found[1]
    raise MissingError("divisor")


def loss_of(lines: Lines) -> str:
    return "scaler.scale(loss)" if "scaler.scale(loss)" in text(lines, "backward") else "loss"


# -- the kinds ---------------------------------------------------------------------------------------------------------


def count_not_reset(lines: Lines, base: Base) -> Lines:
    return drop(lines, "reset")


def reset_too_early(lines: Lines, base: Base) -> Lines:
    return move_before(lines, "reset", "div")


def assigned_not_added(lines: Lines, base: Base) -> Lines:
    return edit(lines, "count", " += ", " = ")


def last_count(lines: Lines, base: Base) -> Lines:
    found = re.fullmatch(r"n = sum\((.*) for x, y in window\)", text(lines, "total"))
    if not found:
        raise MissingError("sum over a window")
    return edit(lines, "total", found[0], f"n = [{found[1]} for x, y in window][-1]")


def first_count_only(lines: Lines, base: Base) -> Lines:
    found = re.fullmatch(r"n = sum\((.*) for x, y in window\)", text(lines, "total"))
    if not found:
        raise MissingError("sum over a window")
    return edit(lines, "total", found[0], f"n = [{found[1]} for x, y in window][0] * len(window)")


def running_count(lines: Lines, base: Base) -> Lines:
    where, value = divisor(lines)
    if where != "div":
        raise MissingError("deferred")
    lines = move_before(drop(lines, "div"), "count", "backward")
    if any("flushdiv" in line.marks for line in lines):
        lines = drop(lines, "flushdiv")
    loss = loss_of(lines)
    return edit(lines, "backward", loss, f"({loss} / {value})" if loss == "loss" else f"scaler.scale(loss / {value})")


def missing_last_count(lines: Lines, base: Base) -> Lines:
    """The count is added after the boundary, so a window lacks its last microbatch."""
    count = lines[at(lines, "count")]
    return after_block(drop(lines, "count"), "boundary", count.text)


def count_on_wrong_level(lines: Lines, base: Base) -> Lines:
    """The count is taken once a window (or once a pass) instead of once a microbatch."""
    if any("self." in line.text for line in lines):
        raise MissingError("another method")
    return move_before(lines, "count", "div")


def total_of_one_microbatch(lines: Lines, base: Base) -> Lines:
    found = re.fullmatch(r"n = sum\((.*) for x, y in window\)", text(lines, "total"))
    if found:
        return before(drop(lines, "total"), "loss", f"n = {found[1]}")
    return (
        before(drop(lines, "total"), "loss", "n = int(m.sum())") if "mask.sum()" in text(lines, "total") else _missing()
    )


def total_of_the_epoch(lines: Lines, base: Base) -> Lines:
    return edit(lines, "total", "in window", "in loader")


def no_flush(lines: Lines, base: Base) -> Lines:
    if any("flush" in line.marks for line in lines):
        return drop(lines, "flush")
    found = re.search(r" or .*(?=:$)", text(lines, "boundary"))
    return edit(lines, "boundary", found[0], "") if found else _missing()


def flush_without_division(lines: Lines, base: Base) -> Lines:
    return drop(lines, "flushdiv")


def flush_unguarded(lines: Lines, base: Base) -> Lines:
    return edit(lines, "flushif", text(lines, "flushif"), "if True:")


def tail_divided_by_k(lines: Lines, base: Base) -> Lines:
    """The last window is divided by K times the mean count so far, not by its own count."""
    if any("flushdiv" in line.marks for line in lines):
        return edit(lines, "flushdiv", "max(n, 1)", "k")
    where, value = divisor(lines)
    if "or i == last" not in text(lines, "boundary"):
        raise MissingError("or last")
    return edit(lines, where, value, f"({value} if (i + 1) % k == 0 else k)")


def clip_before_division(lines: Lines, base: Base) -> Lines:
    return move_before(lines, "clip", "div")


def clip_per_microbatch(lines: Lines, base: Base) -> Lines:
    return in_micro(lines, "clip")


def clip_also_per_microbatch(lines: Lines, base: Base) -> Lines:
    return after(lines, "backward", text(lines, "clip"))


def clip_lost(lines: Lines, base: Base) -> Lines:
    return drop(lines, "clip")


def clip_after_step(lines: Lines, base: Base) -> Lines:
    return move_after(lines, "clip", "step")


def also_divided_by_k(lines: Lines, base: Base) -> Lines:
    where, value = divisor(lines)
    return edit(lines, where, f"/ {value}", f"/ {value} / {steps(lines)}")


def divided_by_k_only(lines: Lines, base: Base) -> Lines:
    where, value = divisor(lines)
    return edit(lines, where, f"/ {value}", f"/ {steps(lines)}")


def not_divided(lines: Lines, base: Base) -> Lines:
    where, value = divisor(lines)
    return edit(lines, where, f"/ {value}", "/ 1")


def divided_twice(lines: Lines, base: Base) -> Lines:
    where, value = divisor(lines)
    return edit(lines, where, f"/ {value}", f"/ {value} / {value}")


def counted_twice(lines: Lines, base: Base) -> Lines:
    """Both the method of the microbatch and its caller add to the count."""
    return after(lines, "count", text(lines, "count"))


def one_term_counted(lines: Lines, base: Base) -> Lines:
    """Only the last term of a loss is multiplied by the count."""
    return edit(edit(lines, "loss", "loss = (0.25", "loss = 0.25"), "loss", ")) * m", ") * m")


def divided_per_microbatch(lines: Lines, base: Base) -> Lines:
    """The division of the gradients is dedented: earlier microbatches are divided again and again."""
    return move_after(lines, "div", "count")


def integer_factor(lines: Lines, base: Base) -> Lines:
    where, value = divisor(lines)
    if where != "div" or not value.startswith("max"):
        raise MissingError("a Python integer")
    return edit(lines, where, f"1.0 / {value}", f"1 // {value}")


def mean_left(lines: Lines, base: Base) -> Lines:
    """The reduction was left at the mean, and the gradient is divided by the count."""
    if ") * m" in text(lines, "loss"):
        return edit(lines, "loss", ") * m", ")")
    for mark in ("criterion", "loss"):
        try:
            return edit(lines, mark, ', reduction="sum"', "")
        except MissingError:
            pass
        try:
            return edit(lines, mark, 'reduction="sum"', "")
        except MissingError:
            pass
    if "(each / lengths).sum()" in text(lines, "loss"):
        return edit(lines, "loss", ".sum()", ".mean()")
    return edit(
        lines, "loss", ".sum()", f".sum() / {'m' if '* m)' in text(lines, 'loss') else 'mask'}.sum().clamp(min=1)"
    )


def equal_weights(lines: Lines, base: Base) -> Lines:
    """Not repaired at all: the mean divided by K."""
    return divided_by_k_only(mean_left(lines, base), base)


def ctc_plain_sum(lines: Lines, base: Base) -> Lines:
    return edit(lines, "loss", "(each / lengths).sum()", "each.sum()")


def clamped_weight_sum(lines: Lines, base: Base) -> Lines:
    if "class_weights" not in text(lines, "count"):
        raise MissingError("class weights")
    return edit(lines, "div", "/ n", "/ max(n, 1)")


def zero_grad_before_step(lines: Lines, base: Base) -> Lines:
    if at(lines, "clear") < at(lines, "step"):
        raise MissingError("cleared at the start")
    return move_before(lines, "clear", "step")


def zero_grad_per_microbatch(lines: Lines, base: Base) -> Lines:
    return before(lines, "top", text(lines, "clear"))


def never_cleared(lines: Lines, base: Base) -> Lines:
    return drop(lines, "clear")


def step_per_microbatch(lines: Lines, base: Base) -> Lines:
    if any("scaler" in line.text for line in lines):
        return in_micro(in_micro(lines, "update"), "step")
    return in_micro(lines, "step")


def scheduler_per_microbatch(lines: Lines, base: Base) -> Lines:
    return in_micro(lines, "sched")


def scheduler_lost(lines: Lines, base: Base) -> Lines:
    return drop(lines, "sched")


def off_by_one(lines: Lines, base: Base) -> Lines:
    return edit(lines, "boundary", "(i + 1) % k == 0", "i % k == 0")


def update_per_microbatch(lines: Lines, base: Base) -> Lines:
    """unscale_ and update run for every microbatch, so scaled and unscaled gradients are mixed."""
    lines = drop(drop(lines, "unscale"), "update")
    return after_block(after(lines, "backward", "scaler.unscale_(optimizer)"), "boundary", "scaler.update()")


def unscale_after_clip(lines: Lines, base: Base) -> Lines:
    return move_after(lines, "unscale", "clip")


def never_unscaled(lines: Lines, base: Base) -> Lines:
    return drop(lines, "unscale")


def world_size_missing(lines: Lines, base: Base) -> Lines:
    if any("ranks" in line.marks for line in lines):
        return edit(lines, "ranks", "accelerator.num_processes * ", "")
    try:
        return edit(lines, "div", "dist.get_world_size()", "1.0")
    except MissingError:
        return edit(lines, "backward", " * world", "")


def world_size_doubled(lines: Lines, base: Base) -> Lines:
    if any("ranks" in line.marks for line in lines):
        return edit(lines, "ranks", "num_processes", "num_processes ** 2")
    try:
        return edit(lines, "div", "dist.get_world_size()", "dist.get_world_size() ** 2")
    except MissingError:
        return edit(lines, "backward", " * world", " * world * world")


def local_count(lines: Lines, base: Base) -> Lines:
    return drop(lines, "allreduce")


def local_count_without_world_size(lines: Lines, base: Base) -> Lines:
    return world_size_missing(drop(lines, "allreduce"), base)


def never_synchronised(lines: Lines, base: Base) -> Lines:
    return edit(lines, "sync", text(lines, "sync"), "with model.no_sync():")


def synchronised_on_the_first(lines: Lines, base: Base) -> Lines:
    try:
        return edit(lines, "sync", "j == len(window) - 1", "j == 0")
    except MissingError:
        return edit(lines, "sync", "(i + 1) % k and i != last", "i % k")


def summed_count_twice(lines: Lines, base: Base) -> Lines:
    return after(lines, "allreduce", text(lines, "allreduce"))


def mean_of_counts(lines: Lines, base: Base) -> Lines:
    """The count is averaged over the ranks, and the world size is multiplied all the same."""
    summed = "torch.tensor(n, device=accelerator.device)"
    return edit(lines, "allreduce", f"{summed})", f'{summed}.float(), reduction="mean")')


def library_divisor_left(lines: Lines, base: Base) -> Lines:
    """What the library's backward has divided by is not undone."""
    return edit(lines, "ranks", " * accelerator.gradient_accumulation_steps", "")


def library_divisor_undone_twice(lines: Lines, base: Base) -> Lines:
    return edit(lines, "ranks", "gradient_accumulation_steps", "gradient_accumulation_steps ** 2")


def count_of_one_process(lines: Lines, base: Base) -> Lines:
    """The sum over the ranks is computed and not used."""
    return edit(lines, "allreduce", "n = accelerator", "accelerator")


def steps(lines: Lines) -> str:
    return "self.k" if any("self.k" in line.text for line in lines) else "k"


def _missing() -> Lines:
    raise MissingError("does not apply")


KINDS: dict[str, Callable[[Lines, Base], Lines]] = {
    function.__name__: function
    for function in (
        count_not_reset,
        reset_too_early,
        assigned_not_added,
        last_count,
        first_count_only,
        running_count,
        missing_last_count,
        count_on_wrong_level,
        total_of_one_microbatch,
        total_of_the_epoch,
        no_flush,
        flush_without_division,
        flush_unguarded,
        tail_divided_by_k,
        clip_before_division,
        clip_per_microbatch,
        clip_also_per_microbatch,
        clip_lost,
        clip_after_step,
        also_divided_by_k,
        divided_by_k_only,
        not_divided,
        divided_twice,
        counted_twice,
        one_term_counted,
        divided_per_microbatch,
        integer_factor,
        mean_left,
        equal_weights,
        ctc_plain_sum,
        clamped_weight_sum,
        zero_grad_before_step,
        zero_grad_per_microbatch,
        never_cleared,
        step_per_microbatch,
        scheduler_per_microbatch,
        scheduler_lost,
        off_by_one,
        update_per_microbatch,
        unscale_after_clip,
        never_unscaled,
        world_size_missing,
        world_size_doubled,
        local_count,
        local_count_without_world_size,
        never_synchronised,
        synchronised_on_the_first,
        summed_count_twice,
        mean_of_counts,
        library_divisor_left,
        library_divisor_undone_twice,
        count_of_one_process,
    )
}
