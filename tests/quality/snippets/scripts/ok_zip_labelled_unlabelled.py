# expect: nothing
# mechanism: semi-supervised: two loaders are zipped, one step a pair of batches
import torch
import torch.nn.functional as F


def train(net, labelled, unlabelled, opt, sched, threshold=0.95):
    for (x, y), (weak, strong) in zip(labelled, unlabelled):
        with torch.no_grad():
            p, pseudo = net(weak).softmax(-1).max(-1)
        loss_s = F.cross_entropy(net(x), y)
        loss_u = (F.cross_entropy(net(strong), pseudo, reduction="none") * (p > threshold)).mean()
        opt.zero_grad()
        (loss_s + loss_u).backward()
        opt.step()
        sched.step()
