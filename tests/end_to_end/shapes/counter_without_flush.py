"""A counter of pending microbatches; nothing is done with the rest."""

import torch.nn as nn


def fit(net, loader, opt, every=4, epochs=2):
    criterion = nn.NLLLoss(ignore_index=0)
    for _ in range(epochs):
        pending = 0
        opt.zero_grad()
        for tokens, tags in loader:
            scores = net(tokens).log_softmax(-1)
            loss = criterion(scores.transpose(1, 2), tags)
            loss.div(every).backward()  # expect: ACC101
            pending += 1
            if pending < every:  # expect: ACC304
                continue
            opt.step()
            opt.zero_grad()
            pending = 0
