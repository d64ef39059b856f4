# mechanism: logging.info shows the loss after its division
import logging

import torch
import torch.nn.functional as F

log = logging.getLogger(__name__)


def train(net, bank, opt, accum, updates):
    for u in range(updates):
        for _ in range(accum):
            x = bank[torch.randint(0, len(bank), (8,))]
            loss = F.mse_loss(net(x), x) / accum
            loss.backward()
        opt.step()
        opt.zero_grad()
        log.info("update %d loss %.4f", u, loss.item())  # expect-optin: ACC403
