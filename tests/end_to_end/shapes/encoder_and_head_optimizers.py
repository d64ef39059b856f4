"""One loss, two optimizers: the encoder learns slowly."""

import torch
import torch.nn.functional as F


def train(encoder, head, loader, lr=0.05, accum=4):
    encoder_opt = torch.optim.SGD(encoder.parameters(), lr=lr * 0.1)
    head_opt = torch.optim.SGD(head.parameters(), lr=lr)
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(head(encoder(x)).flatten(0, 1), y.flatten(), ignore_index=-100) / accum
        loss.backward()  # expect: ACC101, ACC107
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            encoder_opt.step()
            head_opt.step()
            encoder_opt.zero_grad()
            head_opt.zero_grad()
