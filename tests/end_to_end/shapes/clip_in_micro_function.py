"""The clip stands with the backward in a function of its own, the step in the loop."""

import torch
import torch.nn as nn


def run_microbatch(model, features, labels, scale):
    loss = nn.functional.cross_entropy(model(features), labels) / scale
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: ACC201


def train(model, draw, optimizer, updates, micro=4):
    for _ in range(updates):
        optimizer.zero_grad(set_to_none=True)
        for _ in range(micro):
            features, labels = draw(8)
            run_microbatch(model, features, labels, micro)
        optimizer.step()
