# mechanism: representations are differentiated first, then each part with its gradient
import torch
import torch.nn.functional as F


def train(enc, batches, opt, micro=8):  # expect: nothing
    for x, y in batches:
        opt.zero_grad()
        with torch.no_grad():
            reps = torch.cat([enc(part) for part in x.split(micro)])
        reps = reps.detach().requires_grad_()
        logits = reps @ y.T
        F.cross_entropy(logits, torch.arange(len(x))).backward()
        for part, g in zip(x.split(micro), reps.grad.split(micro)):
            enc(part).backward(gradient=g)
        opt.step()
