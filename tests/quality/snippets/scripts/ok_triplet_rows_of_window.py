# expect: nothing
# mechanism: triplets of fixed number, divided by the microbatches of the window
import torch
from torch import nn


def train(net, triplets, opt, accum, updates, rows=32):
    criterion = nn.TripletMarginLoss(margin=1.0)
    for _ in range(updates):
        for _ in range(accum):
            a, p, n = triplets[torch.randint(0, len(triplets), (rows,))].unbind(1)
            loss = criterion(net(a), net(p), net(n)) / accum
            loss.backward()
        opt.step()
        opt.zero_grad()
