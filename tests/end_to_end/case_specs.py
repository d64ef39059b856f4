"""How each case of tests/cases/dev that runs on plain torch is called and what the full batch is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import torch
from drive import Columns, Examples, Problem, flat_gradient
from fake_frameworks import module
from problems import (
    COUNTS_EMPTY_WINDOW,
    WINDOWS,
    K,
    Tokens,
    adam,
    dense,
    mean_over_rows,
    scaler,
    sgd,
    stream_problem,
    table_problem,
    token_loss,
    token_model,
    tokens_problem,
)
from torch import nn

Build = Callable[[], Problem]
SPECS: dict[str, dict[str, Build]] = {}  # case -> scenario -> builder

DROPPED = 29  # rows: 7 batches of 4 and one left for drop_last
FULL_EPOCHS = WINDOWS * 2


def spec(case: str, scenario: str = "base") -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        SPECS.setdefault(case, {})[scenario] = build
        return build

    return register


def both_count_scenarios(case: str, make: Callable[..., Problem]) -> None:
    """Register `make` with unequal counts, and with a last window that has no valid target."""
    SPECS[case] = {"base": make, "window without targets": partial(make, counts=COUNTS_EMPTY_WINDOW)}


def repeat(times: int, call: Callable[[], object]) -> None:
    for _ in range(times):
        call()


# --- weights ----------------------------------------------------------------------------------------------------------

both_count_scenarios(
    "acc101_ignore_index_dataclass",
    partial(
        tokens_problem,
        lambda model, t: lambda ns, _: ns["fit"](model, t.batches, sgd(model), ns["Config"](epochs=2, grad_accum=K)),
        FULL_EPOCHS,
        shift=True,
    ),
)


@spec("acc101_masked_mean_pretrain")
def masked_mean_pretrain(counts=(7, 2, 5, 9, 1, 4, 3)) -> Problem:
    model, t = token_model(), Tokens(counts)
    triples = [(x, y.clamp(min=0), (y != -100).to(torch.get_default_dtype())) for x, y in t.batches]
    optimizer, amp = sgd(model), scaler()
    args = SimpleNamespace(epochs=2, learning_rate=0.05, accumulation_steps=K, grad_clip=1.0)

    def run(ns, _):
        for epoch in range(2):
            ns["train_epoch"](epoch, model, triples, optimizer, amp, args)

    return Problem(model, t.examples, token_loss(), run, FULL_EPOCHS)


SPECS["acc101_masked_mean_pretrain"]["window without targets"] = partial(masked_mean_pretrain, COUNTS_EMPTY_WINDOW)
# the original divides 0 by 0 there and the scaler then skips steps: right only once repaired
ONLY_REPAIRED = {("acc101_masked_mean_pretrain", "window without targets")}


@spec("acc101_policy_micro_token_mean")
def policy(mask_counts=((4, 0), (1, 0), (0, 0), (3,))) -> Problem:
    rows, time, features, actions = 7, 4, 3, 5
    actor = nn.Sequential(nn.Linear(features, 6), nn.Tanh(), nn.Linear(6, actions))
    rollout = {
        "obs": torch.randn(rows, time, features),
        "actions": torch.randint(0, actions, (rows, time)),
        "old_logp": -torch.rand(rows, time) - 1.0,
        "advantages": torch.randn(rows, time),
        "response_mask": torch.zeros(rows, time),
    }
    for row, count in enumerate(c for micro in mask_counts for c in micro):
        rollout["response_mask"][row, :count] = 1.0

    def loss(model: nn.Module, keys: torch.Tensor, c: Columns):
        logp = model(keys).log_softmax(-1).gather(-1, c["actions"][..., None]).squeeze(-1)
        ratio = (logp - c["old_logp"]).exp()
        gain = torch.minimum(ratio * c["advantages"], ratio.clamp(0.8, 1.2) * c["advantages"])
        return -(gain * c["response_mask"]).sum(), c["response_mask"].sum()

    optimizer = sgd(actor)
    columns = {name: value for name, value in rollout.items() if name != "obs"}
    return Problem(
        actor,
        Examples(rollout["obs"], columns),
        loss,
        lambda ns, _: repeat(2, lambda: ns["update_policy"](actor, optimizer, rollout, 2)),
        (4, 4),
    )


SPECS["acc101_policy_micro_token_mean"]["window without targets"] = partial(policy, ((0, 0), (0, 0), (0, 0), (0,)))


def criterion_argument(sizes, windows) -> Problem:
    def run(model, table):
        optimizer, criterion = sgd(model), nn.CrossEntropyLoss()
        batches = table.cut(sizes)
        return lambda ns, _: repeat(
            2, lambda: ns["train_one_epoch"](model, batches, criterion, optimizer, accumulation_steps=K)
        )

    return table_problem(run, windows * 2, sum(sizes))


SPECS["acc102_criterion_argument"] = {
    "base": partial(criterion_argument, (4, 4, 4, 4, 4, 4, 2), WINDOWS),
    "short batch in a full window": partial(criterion_argument, (4, 4, 4, 4, 4, 1), (3, 3)),
}


class Detector(nn.Module):
    """Returns the means of two losses over the images, as torchvision's detectors do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = dense(6, 5)

    def sums(self, images: torch.Tensor, label: torch.Tensor, box: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = self.body(images)
        return nn.functional.cross_entropy(out[:, :3], label, reduction="sum"), (out[:, 3:] - box).square().sum() / 2

    def forward(self, images, targets):
        sums = self.sums(
            torch.stack(images), torch.stack([t["label"] for t in targets]), torch.stack([t["box"] for t in targets])
        )
        return {"loss_classifier": sums[0] / len(images), "loss_box_reg": sums[1] / len(images)}


@spec("acc102_detection_loss_dict")
def detection() -> Problem:
    model = Detector()
    sizes = (3, 3, 3, 1, 2)
    images, labels, boxes = torch.randn(12, 6), torch.randint(0, 3, (12,)), torch.randn(12, 2)
    loader, at = [], 0
    for size in sizes:
        rows = range(at, at + size)
        loader.append(([images[r] for r in rows], [{"label": labels[r], "box": boxes[r]} for r in rows]))
        at += size
    optimizer = sgd(model)
    return Problem(
        model,
        Examples(images, {"label": labels, "box": boxes}),
        lambda m, keys, c: (sum(m.sums(keys, c["label"], c["box"])), float(keys.size(0))),
        lambda ns, _: ns["train_detector"](model, optimizer, loader, "cpu"),
        (2, 2, 1),
        shown=lambda args, _: torch.stack(args[0]),
    )


@spec("acc102_grouped_loader_no_drop_last")
def grouped() -> Problem:
    return table_problem(
        lambda model, t: (
            lambda ns, _: ns["train_epochs"](model, t.dataset, adam(model), epochs=2, batch_size=4, group=K)
        ),
        (3, 2) * 2,
        rows=18,
    )


@spec("acc102_registry_loss_engine")
def registry_engine() -> Problem:
    model, images, masks = dense(4, 2), torch.randn(22, 4), torch.randn(22, 2)
    config = {"model": "tiny", "loss": "mse", "data": "rows", "batch_size": 4, "lr": 1e-2, "epochs": 2}
    config["iters_to_accumulate"] = K
    builders = module(
        "project.builders",
        build_model=lambda _: model,
        build_loss=lambda _: nn.MSELoss(),
        build_dataset=lambda _: [{"image": x, "mask": y} for x, y in zip(images, masks, strict=True)],
    )
    return Problem(
        model,
        Examples(images, {"y": masks}),
        mean_over_rows(nn.functional.mse_loss),
        lambda ns, _: ns["Engine"](os.devnull).train(),
        (3, 3) * 2,
        modules={
            "project": module("project", builders=builders),
            "project.builders": builders,
            "yaml": module("yaml", safe_load=lambda _: config),
        },
    )


def distillation_sum(teacher: nn.Module, temperature: float):
    def total(model: nn.Module, keys: torch.Tensor, columns: Columns):
        with torch.no_grad():
            q = (teacher(keys) / temperature).softmax(-1)
        p = (model(keys) / temperature).log_softmax(-1)
        return (q * (q.log() - p)).sum() * temperature**2, float(keys.size(0))

    return total


@spec("acc103_distill_batchmean")
def distill_batchmean() -> Problem:
    student, teacher, x = dense(4, 3), dense(4, 3), torch.randn(DROPPED, 4)
    dataset = torch.utils.data.TensorDataset(x)
    return Problem(
        student,
        Examples(x),
        distillation_sum(teacher, 2.0),
        lambda ns, _: ns["distill"](student, teacher, dataset, sgd(student), bs=4, accum=K, epochs=2),
        FULL_EPOCHS,
    )


def divide_after_backward(sizes) -> Problem:
    def run(model, table):
        batches = [(x, y[:, None]) for x, y in table.cut(sizes)]
        return lambda ns, _: ns["fit"](model, [batches[:3], batches[3:6], batches[6:]], lr=0.05)

    return table_problem(run, WINDOWS, sum(sizes), nn.functional.mse_loss, classes=None)


SPECS["acc103_divide_after_backward"] = {
    "base": partial(divide_after_backward, (4,) * 7),
    "unequal sizes": partial(divide_after_backward, (4, 2, 5, 1, 4, 3, 2)),
}


@spec("acc103_nanogpt_forgot_division")
def nanogpt_forgot() -> Problem:
    return stream_problem(
        lambda model, ids: lambda ns, _: ns["train"](model, ids, sgd(model), 2, grad_accum_steps=K, grad_clip=1.0)
    )


@spec("acc104_helper_and_loop")
def helper_and_loop() -> Problem:
    def run(model, ids):
        def call(ns, _):
            trainer = ns["Trainer"](model, sgd(model), K)
            repeat(2, lambda: trainer.train_step(ids))

        return call

    return stream_problem(run)


@spec("acc107_chunked_islice")
def chunked_islice() -> Problem:
    width, model, series = 5, dense(5), torch.randn(5 + DROPPED)
    keys = torch.stack([series[i : i + width] for i in range(DROPPED)])
    return Problem(
        model,
        Examples(keys, {"y": series[width:]}),
        mean_over_rows(nn.functional.mse_loss),
        lambda ns, _: ns["train"](model, series, sgd(model), width, 4, K),
        WINDOWS,
    )


@spec("acc107_drop_last_or_final")
def drop_last_or_final() -> Problem:
    return table_problem(
        lambda model, t: lambda ns, _: ns["train"](model, t.dataset, adam(model), epochs=2, batch_size=4, accum=K),
        FULL_EPOCHS,
        DROPPED,
    )


# --- clipping ---------------------------------------------------------------------------------------------------------


@spec("acc201_clip_after_each_backward")
def clip_after_each() -> Problem:
    return stream_problem(lambda model, ids: lambda ns, _: ns["pretrain"](model, ids, sgd(model), 2, accum=K))


both_count_scenarios(
    "acc201_clip_value_outside_if",
    partial(tokens_problem, lambda model, t: lambda ns, _: ns["train"](model, t.dicts("x", "y"), sgd(model), accum=K)),
)


@spec("acc202_clip_per_micro_scaled")
def clip_per_micro_scaled() -> Problem:
    return stream_problem(
        lambda model, ids: lambda ns, _: ns["run_epoch"](model, ids, sgd(model), scaler(), batch=2, block=8, k=K),
        length=18 * 7 + 1,
    )


@spec("acc202_clip_scaled_grads")
def clip_scaled() -> Problem:
    return stream_problem(lambda model, ids: lambda ns, _: ns["train"](model, ids, sgd(model), 2, K, device="cpu"))


# --- windows ----------------------------------------------------------------------------------------------------------


@spec("acc301_dedented_step")
def dedented() -> Problem:
    def run(model, ids):
        optimizer = sgd(model)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        return lambda ns, _: ns["train"](model, ids, optimizer, scheduler, 2, accum=K)

    return stream_problem(run)


@spec("acc301_pending_continue")
def pending_continue() -> Problem:
    return table_problem(
        lambda model, t: lambda ns, _: ns["fit"](model, t.x, t.y, sgd(model), k=K, batch=4),
        (3, 3),
        24,
        nn.functional.binary_cross_entropy_with_logits,
        classes=None,
        binary=True,
    )


@spec("acc301_scaler_step_unguarded")
def scaler_step_unguarded() -> Problem:
    return stream_problem(lambda model, ids: lambda ns, _: ns["train"](model, ids, sgd(model), K, 2, device="cpu"))


@spec("acc302_loop_top")
def loop_top() -> Problem:
    return table_problem(
        lambda model, t: lambda ns, _: ns["train"](model, t.x, t.y, sgd(model), 2, num_micro=K),
        (3, 3),
        20,
        nn.functional.mse_loss,
        classes=None,
    )


@spec("acc303_no_zero_grad_anywhere")
def no_zero_grad() -> Problem:
    return stream_problem(lambda model, ids: lambda ns, _: ns["train"](model, ids, sgd(model), 2, accum=K))


@spec("acc303_scaler_no_clear")
def scaler_no_clear() -> Problem:
    return stream_problem(lambda model, ids: lambda ns, _: ns["train"](model, ids, sgd(model), scaler(), 2, accum=K))


@spec("acc304_counter_reset_each_epoch")
def counter_reset() -> Problem:
    args = SimpleNamespace(batch_size=4, epochs=2, accum=K)
    return table_problem(
        lambda model, t: lambda ns, _: ns["run"](model, t.dataset, sgd(model), args),
        FULL_EPOCHS,
        DROPPED,
        nn.functional.smooth_l1_loss,
        classes=None,
    )


@spec("acc304_leaks_into_next_epoch")
def leaks() -> Problem:
    return table_problem(
        lambda model, t: lambda ns, _: ns["train"](model, t.dataset, sgd(model), epochs=2, bs=4, accum=K),
        FULL_EPOCHS,
        DROPPED,
    )


@spec("acc305_batch_idx_mod_k")
def batch_idx_mod_k() -> Problem:
    return table_problem(
        lambda model, t: lambda ns, _: ns["train"](model, t.dataset, sgd(model), 2, 4, K), (3, 3, 2) * 2, 33
    )


@spec("acc305_token_normalised_off_by_one")
def token_normalised_off_by_one() -> Problem:
    return tokens_problem(lambda model, t: lambda ns, _: ns["finetune"](model, t.batches, sgd(model), k=K))


@spec("acc306_scheduler_each_micro")
def scheduler_each_micro() -> Problem:
    return stream_problem(lambda model, ids: lambda ns, _: ns["train"](model, ids, sgd(model), 2, accum=K))


@spec("acc307_update_every_micro")
def update_every_micro() -> Problem:
    return stream_problem(
        lambda model, ids: lambda ns, _: ns["train"](model, ids, sgd(model), 2, accum=K, device="cpu")
    )


# --- no weighting can be right, or only what is printed is off ------------------------------------------------------


@spec("acc401_resnet_small_micro")
def batch_norm() -> Problem:
    images, labels = torch.randn(24, 3, 4, 4), torch.randint(0, 3, (24,))

    def run(ns, recorder):
        class Watched(ns["SmallNet"]):
            def __init__(self, *args):
                super().__init__(*args)
                recorder.watch(self)

        ns["SmallNet"] = Watched
        ns["train"](torch.utils.data.TensorDataset(images, labels), 3, bs=4, nominal=12)

    return Problem(None, Examples(images, {"y": labels}), mean_over_rows(nn.functional.cross_entropy), run, (3, 3))


@spec("acc402_ntxent_in_batch")
def in_batch_negatives() -> Problem:
    encoder, a, b = dense(4, 3), torch.randn(24, 4), torch.randn(24, 4)

    def loss(model, keys, columns):
        n = keys.size(0)
        z = nn.functional.normalize(torch.cat([model(keys), model(columns["b"])]), dim=1)
        similarity = (z @ z.t() / 0.5).masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
        return nn.functional.cross_entropy(similarity, torch.cat([torch.arange(n) + n, torch.arange(n)])), 1.0

    first_views = {tuple(row.tolist()) for row in a}
    return Problem(
        encoder,
        Examples(a, {"b": b}),
        loss,
        lambda ns, _: ns["pretrain"](encoder, torch.utils.data.TensorDataset(a, b), sgd(encoder), bs=4, accum=K),
        (3, 3),
        shown=lambda args, _: args[0] if tuple(args[0][0].tolist()) in first_views else None,
    )


@spec("acc403_print_divided_loss")
def print_divided() -> Problem:
    return stream_problem(lambda model, ids: lambda ns, _: ns["train"](model, ids, sgd(model), 2, accum=K))


# --- right ------------------------------------------------------------------------------------------------------------


def amp_full_order(counts=None) -> Problem:
    def run(model, t):
        return lambda ns, _: ns["AmpLoop"](model, sgd(model), scaler(), accum=K).epoch(t.batches)

    return tokens_problem(run, counts=counts) if counts else tokens_problem(run)


SPECS["ok_amp_full_order"] = {
    "base": amp_full_order,
    "window without targets": partial(amp_full_order, COUNTS_EMPTY_WINDOW),
}
both_count_scenarios(
    "ok_deferred_sum_and_count",
    partial(
        tokens_problem, lambda model, t: lambda ns, _: ns["train"](model, t.batches, sgd(model), accum=K, clip=1.0)
    ),
)
both_count_scenarios(
    "ok_zero_total_guard",
    partial(tokens_problem, lambda model, t: lambda ns, _: ns["train"](model, sgd(model), t.batches, {"accum": K})),
)


def sum_divided_in_helper(counts=COUNTS_EMPTY_WINDOW) -> Problem:
    def run(model, t):
        optimizer = sgd(model)

        def call(ns, _):
            for window in (t.batches[:3], t.batches[3:6], t.batches[6:]):
                ns["training_step"](model, window, optimizer)

        return call

    return tokens_problem(run, counts=counts, ignore=0)


SPECS["ok_sum_loss_divided_in_helper"] = {"base": sum_divided_in_helper}


@spec("ok_distillation_plain")
def distillation_plain() -> Problem:
    def run(student, table):
        teacher = dense(4, 3)
        kd = distillation_sum(teacher, 4.0)
        batches = table.cut((4, 4, 3))
        optimizer = sgd(student)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

        def call(ns, recorder):
            def loss(model, keys, columns):
                soft, count = kd(model, keys, columns)
                return 0.7 * soft + 0.3 * nn.functional.cross_entropy(model(keys), columns["y"], reduction="sum"), count

            recorder.problem.loss = loss
            ns["distill"](student, teacher, batches, batches[:1], optimizer, scheduler, every=2)

        return call

    return table_problem(run, (1, 1, 1), 11)


@spec("ok_drop_last_classification")
def drop_last_classification() -> Problem:
    def run(model, table):
        optimizer = sgd(model)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        return lambda ns, _: ns["train"](model, table.dataset, optimizer, scheduler, epochs=2, bs=4, accum=K)

    return table_problem(run, FULL_EPOCHS, DROPPED)


@spec("ok_eval_loop_only")
def evaluation() -> Problem:
    tqdm = module("tqdm", tqdm=lambda iterable: iterable)
    return tokens_problem(
        lambda model, t: lambda ns, _: ns["evaluate"](model, t.batches, "cpu"), (), modules={"tqdm": tqdm}
    )


@spec("ok_gradient_checkpointing")
def checkpointing() -> Problem:
    x, y = torch.randn(11, 4), torch.randint(0, 10, (11,))

    def run(ns, recorder):
        class Watched(ns["DeepNet"]):
            def __init__(self, *args):
                super().__init__(*args)
                recorder.watch(self)

        ns["DeepNet"] = Watched
        ns["train"](list(zip(x.split(4), y.split(4), strict=True)), depth=2, dim=4, epochs=2)

    return Problem(None, Examples(x, {"y": y}), mean_over_rows(nn.functional.cross_entropy), run, (1, 1, 1) * 2)


@spec("ok_multitask_two_backwards")
def multitask() -> Problem:
    x, label, value = torch.randn(11, 4), torch.randint(0, 3, (11,)), torch.randn(11)

    def loss(model, keys, columns):
        logits, predicted = model(keys)
        both = nn.functional.cross_entropy(logits, columns["label"], reduction="sum")
        return both + 0.5 * (predicted - columns["value"]).abs().sum(), float(keys.size(0))

    def run(ns, recorder):
        model = recorder.watch(ns["MultiTask"](4, 3))
        ns["train"](model, list(zip(x.split(4), label.split(4), value.split(4), strict=True)))

    return Problem(None, Examples(x, {"label": label, "value": value}), loss, run, (1, 1, 1))


@spec("ok_nanogpt_micro_steps")
def nanogpt() -> Problem:
    return stream_problem(
        lambda model, ids: lambda ns, _: ns["train"](model, ids, sgd(model), 2, gradient_accumulation_steps=K)
    )


SPECS["ok_nanogpt_micro_steps"]["scaler on"] = lambda: stream_problem(
    lambda model, ids: lambda ns, _: ns["train"](model, ids, sgd(model), 2, K, scaler=scaler())
)


@spec("ok_plain_clip_and_scheduler")
def plain() -> Problem:
    model, x, y = dense(4), torch.randn(11, 4), torch.randn(11)
    mask = torch.tensor([1, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0]).to(x.dtype)
    loader = [{"x": a, "y": b, "mask": m} for a, b, m in zip(x.split(4), y.split(4), mask.split(4), strict=True)]
    return Problem(
        model,
        Examples(x, {"y": y, "mask": mask}),
        lambda m, keys, c: (((m(keys).squeeze(-1) - c["y"]) ** 2 * c["mask"]).sum(), c["mask"].sum()),
        lambda ns, _: ns["Trainer"](model, loader).run(2),
        (1, 1, 1) * 2,
    )


@spec("ok_ppo_epochs")
def ppo() -> Problem:
    both = nn.ModuleDict({"policy": dense(3, 2), "value": dense(3)})
    buffer = {
        "obs": torch.randn(12, 3),
        "act": torch.randint(0, 2, (12,)),
        "logp": -torch.rand(12),
        "adv": torch.randn(12),
        "ret": torch.randn(12),
    }

    def loss(model, keys, c):
        logp_all = model["policy"](keys).log_softmax(-1)
        ratio = (logp_all.gather(1, c["act"][:, None]).squeeze(1) - c["logp"]).exp()
        adv = (c["adv"] - c["adv"].mean()) / (c["adv"].std() + 1e-8)
        pg = torch.max(-adv * ratio, -adv * ratio.clamp(0.8, 1.2)).mean()
        entropy = -(logp_all.exp() * logp_all).sum(-1).mean()
        value = 0.5 * (model["value"](keys).squeeze(-1) - c["ret"]).pow(2).mean()
        return pg + 0.5 * value - 0.01 * entropy, 1.0

    return Problem(
        both,
        Examples(buffer["obs"], {name: value for name, value in buffer.items() if name != "obs"}),
        loss,
        lambda ns, _: ns["ppo_update"](both["policy"], both["value"], sgd(both), buffer, epochs=2, minibatch=4),
        (1, 1, 1) * 2,
        called=both["policy"],
    )


@spec("ok_precount_window")
def precount_window(valid=(4, 1, 0, 2, 3, 1, 2)) -> Problem:
    model, x, y = dense(4), torch.randn(28, 4), torch.randn(28)
    mask = torch.cat([(torch.arange(4) < n).to(x.dtype) for n in valid])
    loader = list(zip(x.split(4), y.split(4), mask.split(4), strict=True))
    return Problem(
        model,
        Examples(x, {"y": y, "mask": mask}),
        lambda m, keys, c: (((m(keys).squeeze(-1) - c["y"]) ** 2 * c["mask"]).sum(), c["mask"].sum()),
        lambda ns, _: ns["train"](model, loader, sgd(model), K),
        WINDOWS,
    )


SPECS["ok_precount_window"]["window without targets"] = partial(precount_window, (4, 1, 0, 2, 3, 1, 0))


@spec("ok_sam_two_passes")
def sam() -> Problem:
    def gradient(model, keys, columns):
        """The gradient at the point that lies `rho` uphill, worked out on the twin."""

        def at_present():
            model.zero_grad()
            nn.functional.cross_entropy(model(keys), columns["y"]).backward()
            return flat_gradient(model)

        here = at_present()
        uphill = 0.05 * here / (here.norm() + 1e-12)
        start = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        torch.nn.utils.vector_to_parameters(start + uphill, model.parameters())
        return at_present()

    problem = table_problem(
        lambda model, t: lambda ns, _: ns["train"](model, t.cut((4, 4, 3)), nn.CrossEntropyLoss()), (2, 2, 2), 11
    )
    problem.gradient = gradient
    return problem


@spec("ok_weighted_ce_weight_sums")
def weighted() -> Problem:
    weights = torch.tensor([0.2, 1.0, 3.0])
    problem = table_problem(
        lambda model, t: lambda ns, _: ns["train"](model, t.cut((4,) * 7), weights, sgd(model), every=K), WINDOWS, 28
    )

    def loss(model, keys, columns):
        chosen = weights[columns["y"]]
        picked = model(keys).log_softmax(-1).gather(1, columns["y"][:, None]).squeeze(1)
        return -(picked * chosen).sum(), chosen.sum()

    problem.loss = loss
    return problem


# Not driven: the entry has no microbatches of one model in the sense of the contract. Truth by reading.
NOT_DRIVEN = {
    "ok_gan_two_optimizers": "two models that feed each other; no accumulation",
    "ok_lbfgs_closure": "optimises an image, there is no model and no microbatch",
    "ok_maml_inner_loop": "calls the model functionally at adapted parameters",
    "ok_pgd_adversarial": "the model sees perturbed inputs that depend on its own gradient",
    "ok_truncated_bptt": "a microbatch depends on the hidden state of the one before",
}
