"""How each script of samples/ is called and what the full batch is there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import torch
from drive import Examples, Problem
from problems import (
    COUNTS,
    COUNTS_EMPTY_WINDOW,
    VOCABULARY,
    WINDOWS,
    K,
    Table,
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
    valid_labels,
)
from torch import nn

SPECS: dict[str, dict[str, Callable[[], Problem]]] = {}
EMPTY = "window without targets"


def prompt_answer_pairs(counts=COUNTS) -> Problem:
    """token_loss_modulo shifts by itself: the model sees all tokens but the last, the loss all labels but the first."""
    model, loader = token_model(), []
    for k, count in enumerate(counts):
        shape = (1 if k == len(counts) - 1 else 2, 6)
        loader.append((torch.randint(0, VOCABULARY, shape), valid_labels(shape, count, shift=True)))
    examples = Examples(
        torch.cat([tokens[:, :-1] for tokens, _ in loader]), {"labels": torch.cat([y[:, 1:] for _, y in loader])}
    )
    return Problem(
        model,
        examples,
        token_loss(),
        lambda ns, _: ns["train"](model, loader, sgd(model), epochs=2, accumulation_steps=K),
        WINDOWS * 2,
    )


SPECS["token_loss_modulo"] = {"base": prompt_answer_pairs, EMPTY: partial(prompt_answer_pairs, COUNTS_EMPTY_WINDOW)}


def masked_reconstruction(counts=COUNTS) -> Problem:
    model, batches = dense(5, 5), []
    for count in counts:
        original = torch.randn(2, 5)
        mask = (torch.randperm(10) < count).view(2, 5).to(original.dtype)
        batches.append((original * (1 - mask) + 0.01 * torch.randn(2, 5), original, mask))
    corrupted, original, mask = (torch.cat(parts) for parts in zip(*batches, strict=True))
    return Problem(
        model,
        Examples(corrupted, {"original": original, "mask": mask}),
        lambda m, keys, c: ((m(keys) - c["original"]).square().mul(c["mask"]).sum(), c["mask"].sum()),
        lambda ns, _: ns["fit"](model, batches, sgd(model), ns["Settings"](epochs=2, accumulate=K)),
        WINDOWS * 2,
    )


SPECS["masked_reconstruction"] = {
    "base": masked_reconstruction,
    EMPTY: partial(masked_reconstruction, COUNTS_EMPTY_WINDOW),
}


def tagger(counts=COUNTS[:6]) -> Problem:
    """The sample's head is fixed to 5 tags."""

    def build_labels(shape, count):
        labels = valid_labels(shape, count, ignore=0)
        return torch.where(labels > 0, labels % 4 + 1, 0)

    model = nn.Sequential(nn.Embedding(VOCABULARY, 6), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 5))
    batches = [(torch.randint(0, VOCABULARY, (2, 5)), build_labels((2, 5), count)) for count in counts]
    examples = Examples(torch.cat([x for x, _ in batches]), {"labels": torch.cat([y for _, y in batches])})
    return Problem(
        model,
        examples,
        token_loss(ignore=0),
        lambda ns, _: ns["train"](model, batches, adam(model), accumulation_steps=K),
        (3, 3),
    )


SPECS["tagger_next"] = {"base": tagger, EMPTY: partial(tagger, (7, 2, 0, 0, 0, 0))}

SPECS["classifier_short_batch"] = {
    "base": lambda: table_problem(
        lambda model, t: lambda ns, _: ns["train_epochs"](model, t.dataset, sgd(model), 2, 4, K), (3, 2) * 2, 18
    )
}

SPECS["char_model_microsteps"] = {
    "base": lambda: stream_problem(
        lambda model, ids: lambda ns, _: ns["train"](model, ids, adam(model), 2, micro_steps=K)
    )
}


def scaled_twice() -> Problem:
    def run(model, table):
        optimizer = sgd(model)

        def draw(size):
            rows = torch.randint(0, len(table.x), (size,))
            return table.x[rows], table.y[rows]

        def call(ns, _):
            for _ in range(2):
                ns["train_step"](model, optimizer, draw, accumulation_steps=K, batch_size=4)

        return call

    return table_problem(run, (3, 3), 20, nn.functional.smooth_l1_loss, classes=None)


SPECS["scaled_twice"] = {"base": scaled_twice}


def forecast() -> Problem:
    width, model, series = 4, dense(4), torch.randn(4 + 29)
    keys = torch.stack([series[i : i + width] for i in range(29)])

    def run(ns, _):
        ns["ACCUMULATE"] = K
        optimizer = sgd(model)
        for _ in range(2):
            ns["run_epoch"](model, ns["SlidingWindows"](series, width), optimizer, batch_size=4)

    return Problem(
        model, Examples(keys, {"y": series[width:]}), mean_over_rows(nn.functional.mse_loss), run, WINDOWS * 2
    )


SPECS["forecast_flush"] = {"base": forecast}

SPECS["trainer_class_clip"] = {
    "base": lambda: table_problem(
        lambda model, t: lambda ns, _: ns["Trainer"](model, sgd(model), t.x, t.y, K, batch_size=4).run(2),
        (3, 3),
        20,
        nn.functional.binary_cross_entropy_with_logits,
        classes=None,
        binary=True,
    )
}

SPECS["amp_clip_scaled"] = {
    "base": lambda: stream_problem(
        lambda model, ids: lambda ns, _: ns["train"](model, ids, sgd(model), scaler(), 2, K), block=6
    )
}


def dedented() -> Problem:
    x = torch.rand(24, 2)
    model, table = dense(2, 2), SimpleNamespace(x=x, y=x.sort(dim=1).values)
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def draw(size):
        rows = torch.randint(0, len(x), (size,))
        return table.x[rows], table.y[rows]

    return Problem(
        model,
        Examples(x, {"y": table.y}),
        mean_over_rows(nn.functional.l1_loss),
        lambda ns, _: ns["train"](model, optimizer, scheduler, draw, 2 * K, accumulation_steps=K, batch_size=4),
        (3, 3),
    )


SPECS["dedented_step"] = {"base": dedented}

SPECS["cleared_each_microbatch"] = {
    "base": lambda: table_problem(
        lambda model, t: lambda ns, _: ns["train_epoch"](model, t.dataset, sgd(model), 4, K), (3, 3), 29
    )
}


def never_cleared() -> Problem:
    x = torch.linspace(-1, 1, 20)
    keys, y = torch.stack([x**d for d in range(1, 5)], dim=-1), torch.randn(20)
    model = dense(4)
    return Problem(
        model,
        Examples(keys, {"y": y}),
        mean_over_rows(nn.functional.mse_loss),
        lambda ns, _: ns["train"](model, x, y, sgd(model), 2, K, batch_size=4),
        (3, 3),
    )


SPECS["never_cleared"] = {"base": never_cleared}


def leftover() -> Problem:
    images, model = torch.randn(29, 4), dense(4, 4)
    args = SimpleNamespace(epochs=2, batch_size=4, accumulate=K, quiet=True)
    return Problem(
        model,
        Examples(images),
        lambda m, keys, _: ((m(keys) - keys).square().sum(), float(keys.numel())),
        lambda ns, _: ns["train"](model, images, adam(model), args),
        WINDOWS * 2,
    )


SPECS["epoch_leftover"] = {"base": leftover}

SPECS["off_by_one"] = {
    "base": lambda: table_problem(
        lambda model, t: lambda ns, _: ns["train"](model, t.dataset, sgd(model), 2, 4, K),
        (3, 3, 2) * 2,
        33,
        nn.functional.binary_cross_entropy_with_logits,
        classes=None,
        binary=True,
    )
}

SPECS["right_deferred"] = {
    name: partial(
        tokens_problem,
        lambda model, t: lambda ns, _: ns["train"](model, t.batches, sgd(model), 2, K),
        WINDOWS * 2,
        counts=counts,
    )
    for name, counts in (("base", COUNTS), (EMPTY, COUNTS_EMPTY_WINDOW))
}


def precount(valid=(4, 1, 0, 2, 3, 1, 2)) -> Problem:
    model, table = dense(4), Table(28)
    mask = torch.cat([(torch.arange(4) < n).to(table.x.dtype) for n in valid])
    batches = list(zip(table.x.split(4), table.y.split(4), mask.split(4), strict=True))

    def loss(m, keys, c):
        error = nn.functional.huber_loss(m(keys).squeeze(-1), c["y"], reduction="none")
        return (error * c["mask"]).sum(), c["mask"].sum()

    return Problem(
        model,
        Examples(table.x, {"y": table.y, "mask": mask}),
        loss,
        lambda ns, _: ns["train"](model, batches, sgd(model), K),
        WINDOWS,
    )


SPECS["right_precount"] = {"base": precount, EMPTY: partial(precount, (4, 1, 0, 2, 3, 1, 0))}


def fixed_shape() -> Problem:
    def run(model, ids):
        return lambda ns, _: ns["train"](model, ids, adam(model), 2)

    # the sample fixes K = 5
    return stream_problem(run, (5, 5))


SPECS["right_fixed_shape"] = {"base": fixed_shape}


def amp_trainer() -> Problem:
    def run(model, table):
        def call(ns, _):
            trainer = ns["AmpTrainer"](model, sgd(model), scaler(), K)
            for _ in range(2):
                trainer.epoch(table.cut((4, 4, 4, 4, 2, 4, 3)))

        return call

    return table_problem(run, WINDOWS * 2, 25)


SPECS["right_amp_trainer"] = {"base": amp_trainer}
