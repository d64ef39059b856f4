# expect: nothing
# mechanism: an inner `while` over microbatches of fixed rows
import torch
import torch.nn.functional as F


def train(net, bank, opt, accumulation, updates):
    done = 0
    while done < updates:
        micro = 0
        opt.zero_grad()
        while micro < accumulation:
            x = bank[torch.randint(0, len(bank), (16,))]
            loss = F.mse_loss(net(x), x) / accumulation
            loss.backward()
            micro += 1
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        done += 1
