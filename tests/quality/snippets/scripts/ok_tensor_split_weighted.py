# expect: nothing
# mechanism: tensor_split gives unequal parts; each is weighted by its rows
import torch
import torch.nn.functional as F


def step(net, opt, x, y, parts):
    total = y.size(0)
    for xs, ys in zip(torch.tensor_split(x, parts), torch.tensor_split(y, parts)):
        loss = F.cross_entropy(net(xs), ys, reduction="sum") / total
        loss.backward()
    opt.step()
    opt.zero_grad()
