# expect: nothing
# mechanism: GradCache: representations first, the loss over all of them, then chunks are backpropagated
import torch
import torch.nn.functional as F


def step(encoder, opt, anchors, positives, chunk, scale=20.0):
    with torch.no_grad():
        a = torch.cat([encoder(c) for c in anchors.split(chunk)])
        b = torch.cat([encoder(c) for c in positives.split(chunk)])
    a.requires_grad_(True)
    b.requires_grad_(True)
    logits = scale * F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T
    loss = F.cross_entropy(logits, torch.arange(len(a), device=a.device))
    loss.backward()
    opt.zero_grad()
    for inputs, grads in ((anchors, a.grad), (positives, b.grad)):
        for c, g in zip(inputs.split(chunk), grads.split(chunk)):
            (encoder(c) * g).sum().backward()
    opt.step()
