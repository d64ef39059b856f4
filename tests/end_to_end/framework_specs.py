"""How the cases of tests/cases/dev that use Accelerate, Fabric or DeepSpeed are called, on stand-ins of one process."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from unittest import mock

import fake_frameworks as fake
import torch
from drive import Examples, Problem
from problems import (
    COUNTS,
    K,
    Tokens,
    dense,
    mean_over_rows,
    sgd,
    stream_problem,
    token_loss,
    token_model,
)
from torch import nn

SPECS: dict[str, dict[str, Callable[[], Problem]]] = {}
EMPTY = "window without targets"


class CausalLanguageModel(nn.Module):
    """`outputs.loss` as a Hugging Face head computes it: a mean over the labels, shifted inside."""

    def __init__(self) -> None:
        super().__init__()
        self.body = token_model()

    def forward(self, input_ids, attention_mask=None, labels=None):
        logits = self.body(input_ids)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        return SimpleNamespace(loss=loss, logits=logits)


def rows_of(tokens: Tokens) -> list[dict[str, torch.Tensor]]:
    return [
        {"input_ids": x, "labels": y, "attention_mask": torch.ones_like(x)}
        for batch in tokens.batches
        for x, y in zip(*batch, strict=True)
    ]


def stacked(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def accelerate_causal_lm(counts=COUNTS) -> Problem:
    model, tokens = CausalLanguageModel(), Tokens(counts, shift=True)
    # 7 batches, 3 epochs: without sync_with_dataloader the windows run on over the ends of epochs and use all up
    config = {"accum": K, "model": "tiny", "lr": 0.01, "bs": 2, "epochs": 3}
    auto = SimpleNamespace(from_pretrained=lambda _: model)
    whole = token_loss(shift=True)
    return Problem(
        model,
        tokens.examples,
        lambda m, keys, columns: whole(m.body, keys, columns),
        lambda ns, _: ns["main"](config, rows_of(tokens), stacked),
        (K,) * 7,
        shown=lambda args, kwargs: kwargs["input_ids"],
        modules={**fake.accelerate(), **fake.transformers(AutoModelForCausalLM=auto)},
    )


SPECS["acc101_accelerate_causal_lm"] = {
    "base": accelerate_causal_lm,
    EMPTY: partial(accelerate_causal_lm, (7, 2, 3, 0, 0, 0, 3)),
}


def deepspeed_sft(counts=COUNTS) -> Problem:
    model, tokens = token_model(), Tokens(counts, shift=True)
    config = {"gradient_accumulation_steps": K, "train_micro_batch_size_per_gpu": 2}

    def run(ns, _):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w") as file:
                json.dump(config, file)
            ns["sft"](model, rows_of(tokens), path, 6, stacked)

    return Problem(model, tokens.examples, token_loss(shift=True), run, (K, K), modules=fake.deepspeed(config))


SPECS["acc101_deepspeed_sft"] = {"base": deepspeed_sft, EMPTY: partial(deepspeed_sft, (7, 2, 0, 0, 0, 0, 3))}


def deepspeed_engine() -> Problem:
    config = {"gradient_accumulation_steps": K, "train_micro_batch_size_per_gpu": 2}

    def run(model, ids):
        def call(ns, _):
            ns["SEQ"] = 8
            arguments = ["script", "--data", "tokens.pt", "--steps", "2"]
            with mock.patch.object(sys, "argv", arguments), mock.patch.object(torch, "load", return_value=ids):
                ns["main"](lambda: model)

        return call

    return stream_problem(run, length=18 * 7 + 1, modules=fake.deepspeed(config))


SPECS["ok_deepspeed_engine_step"] = {"base": deepspeed_engine}


def fabric_backward() -> Problem:
    def run(model, ids):
        chunks = (ids[9 * i : 9 * i + 18].view(2, 9) for i in range(0, 12, 2))
        return lambda ns, _: ns["pretrain"](fake.Fabric(), model, sgd(model), chunks, 2, K, 8)

    return stream_problem(run, length=18 * 7 + 1, modules=fake.fabric())


SPECS["acc103_fabric_backward"] = {"base": fabric_backward}


def fabric_unguarded_step() -> Problem:
    model, data = dense(4), torch.randn(20, 5)
    return Problem(
        model,
        Examples(data[:, :-1], {"y": data[:, -1]}),
        mean_over_rows(nn.functional.mse_loss),
        lambda ns, _: ns["train"](fake.Fabric(), model, sgd(model), data, 2 * K, accum=K, bs=4),
        (K, K),
        modules=fake.fabric(),
    )


SPECS["acc301_fabric_unguarded_step"] = {"base": fabric_unguarded_step}


def accelerate_manual_division() -> Problem:
    def run(model, ids):
        def call(ns, _):
            ns.update(GRAD_ACCUM=K, BLOCK=8, BATCH=2)
            ns["main"](model, ids, 2)

        return call

    return stream_problem(run, modules=fake.accelerate())


SPECS["acc104_accelerate_manual_division"] = {"base": accelerate_manual_division}

SPECS["acc302_zero_first_accelerate"] = {
    "base": lambda: stream_problem(
        lambda model, ids: lambda ns, _: ns["main"](model, ids, 2, accum=K, block=8, bs=2), modules=fake.accelerate()
    )
}


class Denoiser(nn.Module):
    def __init__(self, wrapped: bool) -> None:
        super().__init__()
        self.body, self.wrapped = dense(4, 4), wrapped

    def forward(self, noisy, t):
        out = self.body(noisy)
        return SimpleNamespace(sample=out) if self.wrapped else out


def diffusion(call, wrapped: bool) -> Problem:
    """Latents with a fixed noise each, so that a noisy row tells which latent it is."""
    model, latents, noise = Denoiser(wrapped), torch.randn(20, 4), torch.randn(20, 4)
    clean = Examples(latents)
    scheduler = SimpleNamespace(
        num_train_timesteps=1,
        config=SimpleNamespace(num_train_timesteps=1),
        add_noise=lambda rows, added, _: rows + 0.5 * added,
    )

    def run(ns, _):
        with mock.patch.object(torch, "randn_like", lambda rows: noise[list(clean.find(rows))]):
            call(ns, model, scheduler, latents)

    return Problem(
        model,
        Examples(latents + 0.5 * noise, {"noise": noise}),
        lambda m, keys, columns: ((m.body(keys) - columns["noise"]).square().sum(), float(keys.numel())),
        run,
        (K, K),
        modules={**fake.accelerate(), **fake.diffusers()},
    )


def unguarded_clip(ns, model, scheduler, latents) -> None:
    optimizer = sgd(model)
    ns["train"](model, scheduler, latents, optimizer, fake.warmup_schedule(optimizer), 2, accum=K)


SPECS["acc201_accelerate_unguarded_clip"] = {"base": partial(diffusion, unguarded_clip, wrapped=False)}
SPECS["ok_accelerate_prepared_ungated_step"] = {
    "base": partial(
        diffusion,
        lambda ns, model, scheduler, latents: ns["train"](model, scheduler, latents, 2, accum=K, lr=1e-2),
        wrapped=True,
    )
}


def unprepared_schedule() -> Problem:
    policy, frames, actions = dense(4, 2), torch.randn(20, 4), torch.randn(20, 2)
    return Problem(
        policy,
        Examples(frames, {"y": actions}),
        mean_over_rows(nn.functional.l1_loss),
        lambda ns, _: ns["train"](policy, frames, actions, 2, accum=K, bs=4),
        (K, K),
        modules={**fake.accelerate(), **fake.transformers()},
    )


SPECS["acc306_accelerate_unprepared"] = {"base": unprepared_schedule}

# Not driven here: more than one rank decides, or transformers' Trainer drives the loop.
NOT_DRIVEN = {
    "acc106_accelerate_gathered_count": "driven on two ranks: rank_specs.py",
    "acc106_ddp_scale_grads": "driven on two ranks: rank_specs.py",
    "acc308_flag_set_after_forward": "driven on two ranks: rank_specs.py",
    "acc308_no_sync_wrong_modulo": "driven on two ranks: rank_specs.py",
    "ok_ddp_precount_world_size": "driven on two ranks: rank_specs.py",
    "ok_fairseq_style_multiply_grads": "driven on two ranks: rank_specs.py",
    "acc105_declared_unused": "a loss of transformers' Trainer",
    "acc105_missing_argument": "a loss of transformers' Trainer",
    "ok_hf_num_items_in_batch": "a loss of transformers' Trainer",
    "ok_trainer_sequence_level_dpo": "a loss of transformers' Trainer",
}
