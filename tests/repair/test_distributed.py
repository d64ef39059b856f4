"""Repairs of loops on several ranks: what is inserted, and where no repair is offered."""

from __future__ import annotations

import pytest

from accumlint.contract.judge import judge_regions
from accumlint.reading.read import read_module
from accumlint.repair.plan import RepairPlan, Unrepairable, plan_all
from accumlint.repair.rewrite import apply_edits

DDP = """
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def train(net, loader, optimizer, rank, distributed, accum):
    model = DDP(net, device_ids=[rank])
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y, ignore_index=-100)
        (loss / accum).backward()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
ACCELERATE = """
from __future__ import annotations

import torch.nn.functional as F
from accelerate import Accelerator


def train(net, loader, optimizer, scheduler, accum):
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    model, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y, ignore_index=-100)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
"""


def outcomes(text: str) -> list[RepairPlan | Unrepairable]:
    module = read_module(text, "train.py")
    return plan_all(module, judge_regions(module))


def repaired(text: str) -> str:
    plans = [each for each in outcomes(text) if isinstance(each, RepairPlan)]
    assert len(plans) == 1, outcomes(text)
    return apply_edits(text, plans[0].edits)


def reasons(text: str) -> list[str]:
    found = outcomes(text)
    assert found
    assert not any(isinstance(each, RepairPlan) for each in found)
    return [each.reason for each in found if isinstance(each, Unrepairable)]


def test_the_count_is_summed_over_the_ranks_before_the_step() -> None:
    text = repaired(DDP)
    summed, scaled, stepped = (text.index(part) for part in ("dist.all_reduce(", "dist.get_world_size() /", ".step()"))
    assert summed < scaled < stepped
    assert 'reduction="sum"' in text


def test_the_sum_asks_the_condition_under_which_the_model_is_wrapped() -> None:
    wrapped = "    if distributed:\n        net = DDP(net, device_ids=[rank])\n    model = net\n"
    text = repaired(DDP.replace("    model = DDP(net, device_ids=[rank])\n", wrapped))
    assert "            if distributed:\n                dist.all_reduce(" in text
    assert "(dist.get_world_size() if distributed else 1) /" in text


def test_accelerate_divides_under_its_own_test_and_undoes_its_divisor() -> None:
    text = repaired(ACCELERATE)
    assert "if accelerator.sync_gradients:\n                global_targets = accelerator.reduce(" in text
    assert "accelerator.num_processes / max(global_targets, 1)" in text
    assert "*= accelerator.gradient_accumulation_steps" in text
    assert 'assert accelerator.distributed_type not in ("DEEPSPEED", "MEGATRON_LM")' in text
    assert text.index("from __future__") < text.index("import torch\n") < text.index("def train")


def test_a_backward_that_accelerate_does_not_divide_is_not_multiplied_by_its_steps() -> None:
    text = repaired(ACCELERATE.replace("accelerator.backward(loss)", "(loss / accum).backward()"))
    assert "gradient_accumulation_steps /" not in text
    assert "*= accelerator.gradient_accumulation_steps" not in text
    assert "accelerator.num_processes / max(" in text


def test_clip_and_unprepared_schedule_go_under_the_test_of_accelerate() -> None:
    clipped = ACCELERATE.replace(
        "            optimizer.step()\n",
        "            accelerator.clip_grad_norm_(model.parameters(), 1.0)\n            optimizer.step()\n",
    ).replace(", ignore_index=-100", "")
    text = repaired(clipped.replace("F.cross_entropy", "F.mse_loss"))
    assert "if accelerator.sync_gradients:\n                accelerator.clip_grad_norm_(" in text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("device_ids=[rank])", "process_group=rank)", "a group of ranks of its own"),
        ("    model = DDP(net, device_ids=[rank])\n", "    model = DDP(net) if distributed else net\n", "decided when"),
        ("    for i,", "    model.register_comm_hook(None, sum)\n    for i,", "communication hook"),
        ("            optimizer.step()", "            dist.all_reduce(net.weight.grad)\n            optimizer.step()",
         "by hand"),
        ("import torch.distributed as dist", "import deepspeed", "DeepSpeed keeps the gradients"),  # no engine in sight
        ("DDP(net, device_ids=[rank])", "net", "where their gradients are averaged is not"),
    ],
)  # fmt: skip
def test_what_is_not_plain_is_refused(old: str, new: str, said: str) -> None:
    assert old in DDP
    text = DDP.replace(old, new)
    assert any(said in reason for reason in reasons(text)), reasons(text)


@pytest.mark.parametrize("mark", ["# launched with deepspeed", "accelerator.join_uneven_inputs"])
def test_accelerate_that_is_not_plain_is_refused(mark: str) -> None:
    text = ACCELERATE.replace("    for x, y in loader:", f"    {mark}\n    for x, y in loader:")
    assert reasons(text)


def test_a_norm_that_is_used_for_every_microbatch_stays_where_it_is() -> None:
    text = ACCELERATE.replace("F.cross_entropy(model(x), y, ignore_index=-100)", "F.mse_loss(model(x), y)").replace(
        "            optimizer.step()\n",
        "            norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)\n"
        "            optimizer.step()\n            print(norm)\n",
    )
    assert any("for every microbatch" in reason for reason in reasons(text))


FSDP2 = """
import torch
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard


def train(model, loader, optimizer, steps):
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    for i, batch in enumerate(loader):
        model.set_requires_gradient_sync((i + 1) % steps == 0)
        loss = F.cross_entropy(model(batch["x"]).flatten(0, 1), batch["y"].flatten(), ignore_index=-100)
        (loss / steps).backward()
        if (i + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


def test_the_last_partial_window_synchronises_as_well() -> None:
    text = repaired(FSDP2)
    assert "model.set_requires_gradient_sync((i + 1) % steps == 0 or i + 1 == len(loader))" in text
    assert "if (i + 1) % steps == 0 or i + 1 == len(loader):" in text
    assert "grad_scale = torch.distributed.get_world_size() / max(global_targets, 1)" in text


def test_a_no_sync_of_the_opposite_test_follows_the_boundary() -> None:
    switch = "        with model.no_sync() if (i + 1) % accum != 0 else nullcontext():\n"
    inside = switch + "            (loss / accum).backward()"
    text = DDP.replace("        (loss / accum).backward()", inside).replace(" or i + 1 == len(loader)", "")
    after = repaired(text.replace("import torch\n", "import torch\nfrom contextlib import nullcontext\n", 1))
    assert "with model.no_sync() if (i + 1) % accum != 0 and i + 1 != len(loader) else nullcontext():" in after


def test_gradients_that_are_summed_over_the_ranks_need_no_world_size() -> None:
    text = FSDP2.replace("    for i,", "    model.set_gradient_divide_factor(1.0)\n    for i,")
    assert "grad_scale = 1 / max(global_targets, 1)" in repaired(text)


def test_a_name_for_the_boundary_takes_in_the_end_of_the_pass() -> None:
    switch = "        model.set_requires_gradient_sync((i + 1) % steps == 0)\n"
    named = "        last = (i + 1) % steps == 0\n        model.set_requires_gradient_sync(last)\n"
    text = FSDP2.replace(switch, named)
    after = repaired(text.replace("        if (i + 1) % steps == 0:", "        if last:"))
    assert "        last = (i + 1) % steps == 0 or i + 1 == len(loader)\n" in after
    assert "        if last:\n" in after


def test_what_stands_at_the_wrong_place_moves_beside_weights_that_stay() -> None:
    text = ACCELERATE.replace(
        "loss = F.cross_entropy(model(x), y, ignore_index=-100)", "loss = model(input_ids=x, labels=y).loss"
    ).replace(
        "            optimizer.step()\n",
        "            accelerator.clip_grad_norm_(model.parameters(), 1.0)\n            optimizer.step()\n",
    )
    found = outcomes(text)
    plans = [each for each in found if isinstance(each, RepairPlan)]
    assert [v.clause.name for plan in plans for v in plan.violations] == ["CLIP_COUNT"]
    assert plans[0].suggestion  # shown and never applied: the loop as a whole stays wrong
    assert any("out of sight" in each.reason for each in found if isinstance(each, Unrepairable))
    assert "if accelerator.sync_gradients:\n                accelerator.clip_grad_norm_(" in apply_edits(
        text, plans[0].edits
    )


def test_the_count_of_one_rank_is_not_multiplied_by_their_number() -> None:
    text = """
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def train(net, stream, optimizer, rank, accum):
    model = DDP(net, device_ids=[rank])
    while True:
        window = [next(stream) for _ in range(accum)]
        tokens = sum(int((labels != -100).sum()) for _, labels in window)
        for ids, labels in window:
            loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), reduction="sum") / tokens
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
    assert all("get_world_size" not in apply_edits(text, p.edits) for p in outcomes(text) if isinstance(p, RepairPlan))
    assert "its count is that of one rank" in reasons(text)
