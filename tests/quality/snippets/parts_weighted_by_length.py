# mechanism: parts of one batch, each weighted by its share of the rows
import torch.nn.functional as F


def train(model, batches, opt, micro=8):  # expect: nothing
    for x, y in batches:
        opt.zero_grad()
        for xs, ys in zip(x.split(micro), y.split(micro)):
            loss = F.cross_entropy(model(xs), ys)
            (loss * (len(ys) / len(y))).backward()
        opt.step()
