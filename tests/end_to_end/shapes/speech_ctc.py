"""Connectionist temporal classification over utterances of several lengths."""

import torch.nn as nn


def train_epoch(model, loader, optimizer, accum_grad=4):
    ctc_loss = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer.zero_grad()
    for batch_idx, (frames, frame_lengths, texts, text_lengths) in enumerate(loader):
        log_probs = model(frames).log_softmax(-1).transpose(0, 1)
        loss = ctc_loss(log_probs, texts, frame_lengths, text_lengths)
        loss = loss / accum_grad
        loss.backward()  # expect: ACC102, ACC107
        if (batch_idx + 1) % accum_grad == 0 or batch_idx + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
