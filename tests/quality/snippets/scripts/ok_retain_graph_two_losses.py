# expect: nothing
# mechanism: two losses of one batch, each with its own backward, one step a batch
import torch
import torch.nn.functional as F


def train(net, loader, opt, beta=0.1):
    for x, y in loader:
        opt.zero_grad()
        logits, latent = net(x)
        task = F.cross_entropy(logits, y)
        task.backward(retain_graph=True)
        reg = beta * latent.pow(2).mean()
        reg.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
