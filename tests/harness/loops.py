"""Training loops for the tests: right ones, and every wrong recipe of the facts. Windows of K, a toy's microbatches."""

from __future__ import annotations

import math

import torch
from torch.nn.utils import clip_grad_norm_

from accumlint.harness.toys import Toy

K = 3
CLIP = 0.05
count, loss_sum, loss_mean = Toy.count, Toy.loss_sum, Toy.loss_mean


def windows(microbatches, k=K):
    return [microbatches[i : i + k] for i in range(0, len(microbatches), k)]


def guarded_mean(model, mb):
    return loss_sum(model, mb) / max(count(mb), 1)


def divide(model, n):
    for p in model.parameters():
        if p.grad is not None:
            p.grad.div_(n)


# --- right ---------------------------------------------------------------------------------------------------------
def precount(model, microbatches, optimizer, clip=None):
    for window in windows(microbatches):
        n = max(sum(count(mb) for mb in window), 1)
        optimizer.zero_grad()
        for mb in window:
            (loss_sum(model, mb) / n).backward()
        if clip:
            clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


def deferred(model, microbatches, optimizer, clip=None):
    n = 0
    for i, mb in enumerate(microbatches):
        loss_sum(model, mb).backward()
        n += count(mb)
        if (i + 1) % K == 0 or i + 1 == len(microbatches):
            divide(model, max(n, 1))
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
            n = 0


def weighted_mean_sequential(model, microbatches, optimizer):
    for window in windows(microbatches):
        n = sum(count(mb) for mb in window)
        for mb in window:
            if count(mb):
                (loss_mean(model, mb) * count(mb) / n).backward()
        optimizer.step()
        optimizer.zero_grad()


def weighted_mean_integers(model, microbatches, optimizer):
    for window in windows(microbatches):
        n = torch.tensor(sum(count(mb) for mb in window))
        for mb in window:
            (loss_sum(model, mb) / max(count(mb), 1) * (torch.tensor(count(mb)) / n)).backward()
        optimizer.step()
        optimizer.zero_grad()


def one_graph(model, microbatches, optimizer):
    for window in windows(microbatches):
        n = sum(count(mb) for mb in window)
        (sum(loss_sum(model, mb) for mb in window) / n).backward()
        optimizer.step()
        optimizer.zero_grad()


def precount_clip(model, microbatches, optimizer):
    precount(model, microbatches, optimizer, CLIP)


def deferred_clip(model, microbatches, optimizer):
    deferred(model, microbatches, optimizer, CLIP)


def hand_clip(model, microbatches, optimizer, factor=1.0, margin=1e-6):
    for window in windows(microbatches):
        n = max(sum(count(mb) for mb in window), 1)
        for mb in window:
            (loss_sum(model, mb) * factor / n).backward()
        norm = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters()))
        if norm > CLIP:
            divide(model, (norm + margin) / CLIP)
        optimizer.step()
        optimizer.zero_grad()


RIGHT = [precount, deferred, weighted_mean_integers, precount_clip, deferred_clip]


# --- wrong ---------------------------------------------------------------------------------------------------------
def by_window(backward, finish=lambda model, window: None):
    """Build a loop from what it does for a microbatch and at the boundary."""

    def loop(model, microbatches, optimizer):
        for window in windows(microbatches):
            optimizer.zero_grad()
            for position, mb in enumerate(window):
                backward(model, window, position, mb)
            finish(model, window)
            optimizer.step()

    return loop


def back(value):
    return lambda model, window, position, mb: value(model, window, position, mb).backward()


def total(window):
    return max(sum(count(mb) for mb in window), 1)


naive = by_window(back(lambda m, w, i, mb: guarded_mean(m, mb) / len(w)))
naive_constant = by_window(back(lambda m, w, i, mb: guarded_mean(m, mb) / K))
means_summed = by_window(back(lambda m, w, i, mb: guarded_mean(m, mb)))
running_count = by_window(back(lambda m, w, i, mb: loss_sum(m, mb) / total(w[: i + 1])))
sum_div_k = by_window(back(lambda m, w, i, mb: loss_sum(m, mb) / len(w)))
sum_undivided = by_window(back(lambda m, w, i, mb: loss_sum(m, mb)))
precount_div_k = by_window(back(lambda m, w, i, mb: loss_sum(m, mb) / total(w) / len(w)))
last_count = by_window(back(lambda m, w, i, mb: loss_sum(m, mb)), lambda m, w: divide(m, max(count(w[-1]), 1)))
unpadded_count = by_window(
    back(lambda m, w, i, mb: loss_sum(m, mb)), lambda m, w: divide(m, sum(mb[1].numel() for mb in w))
)
clip_twice = by_window(
    back(lambda m, w, i, mb: loss_sum(m, mb) / total(w)),
    lambda m, w: [clip_grad_norm_(m.parameters(), CLIP), clip_grad_norm_(m.parameters(), CLIP)],
)


def clip_before_div(model, microbatches, optimizer):
    for window in windows(microbatches):
        optimizer.zero_grad()
        for mb in window:
            loss_sum(model, mb).backward()
        clip_grad_norm_(model.parameters(), CLIP)
        divide(model, total(window))
        optimizer.step()


def clip_each(model, microbatches, optimizer):
    for window in windows(microbatches):
        optimizer.zero_grad()
        for mb in window:
            (loss_sum(model, mb) / total(window)).backward()
            clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()


def step_each(model, microbatches, optimizer):
    for window in windows(microbatches):
        optimizer.zero_grad()
        for mb in window:
            (loss_sum(model, mb) / total(window)).backward()
            optimizer.step()


def zero_each(model, microbatches, optimizer):
    for window in windows(microbatches):
        for mb in window:
            optimizer.zero_grad()
            (loss_sum(model, mb) / total(window)).backward()
        optimizer.step()


def never_zero(model, microbatches, optimizer):
    for window in windows(microbatches):
        for mb in window:
            (loss_sum(model, mb) / total(window)).backward()
        optimizer.step()


def leftover(model, microbatches, optimizer):
    n = 0
    for i, mb in enumerate(microbatches):
        loss_sum(model, mb).backward()
        n += count(mb)
        if (i + 1) % K == 0:
            divide(model, max(n, 1))
            optimizer.step()
            optimizer.zero_grad()
            n = 0


def off_by_one(model, microbatches, optimizer):
    n = 0
    for i, mb in enumerate(microbatches):
        loss_sum(model, mb).backward()
        n += count(mb)
        if i % K == 0:
            divide(model, max(n, 1))
            optimizer.step()
            optimizer.zero_grad()
            n = 0


def count_not_reset(model, microbatches, optimizer):
    n = 0
    for window in windows(microbatches):
        for mb in window:
            loss_sum(model, mb).backward()
            n += count(mb)
        divide(model, n)
        optimizer.step()
        optimizer.zero_grad()


def nan_on_empty(model, microbatches, optimizer):
    for window in windows(microbatches):
        for inputs, targets in window:
            mask = (targets != -100).to(inputs.dtype)
            losses = torch.nn.functional.cross_entropy(model(inputs), targets.clamp(min=0), reduction="none")
            ((losses * mask).sum() / mask.sum() / len(window)).backward()
        optimizer.step()
        optimizer.zero_grad()
