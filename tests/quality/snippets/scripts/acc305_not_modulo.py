# mechanism: `if not i % K` over an endless sampler
import itertools

import torch
import torch.nn.functional as F


def main(model, table, optimizer, K=4, stop=10_000):
    for i in itertools.count():
        if i >= stop:
            break
        batch = table[torch.randint(0, table.size(0), (32,))]
        loss = F.l1_loss(model(batch), batch).div(K)
        loss.backward()
        if not i % K:  # expect: ACC305
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
