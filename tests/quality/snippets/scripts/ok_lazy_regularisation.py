# expect: nothing
# mechanism: StyleGAN's lazy regulariser has a step of its own every few iterations
import torch
import torch.nn.functional as F


def train(G, D, loader, opt_g, opt_d, z_dim, d_reg_every=16):
    for i, real in enumerate(loader):
        z = torch.randn(len(real), z_dim)
        d_loss = F.softplus(D(G(z).detach())).mean() + F.softplus(-D(real)).mean()
        opt_d.zero_grad()
        d_loss.backward()
        opt_d.step()
        if i % d_reg_every == 0:
            real.requires_grad_(True)
            grad = torch.autograd.grad(D(real).sum(), real, create_graph=True)[0]
            r1 = grad.pow(2).flatten(1).sum(1).mean()
            opt_d.zero_grad()
            (5.0 * r1 * d_reg_every).backward()
            opt_d.step()
        g_loss = F.softplus(-D(G(z))).mean()
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()
