# expect: nothing
# mechanism: several critic steps before one generator step, a gradient penalty: no accumulation
import torch
from torch import autograd
from torch.utils.data import DataLoader


def penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = critic(mixed)
    grad = autograd.grad(score.sum(), mixed, create_graph=True)[0]
    return ((grad.flatten(1).norm(dim=1) - 1) ** 2).mean()


def train(generator, critic, dataset, z_dim, n_critic=5, epochs=1):
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    opt_g = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
    for _ in range(epochs):
        for i, real in enumerate(loader):
            fake = generator(torch.randn(real.size(0), z_dim))
            opt_c.zero_grad()
            loss_c = critic(fake.detach()).mean() - critic(real).mean()
            loss_c = loss_c + 10 * penalty(critic, real, fake.detach())
            loss_c.backward()
            opt_c.step()
            if (i + 1) % n_critic == 0:
                opt_g.zero_grad()
                loss_g = -critic(fake).mean()
                loss_g.backward()
                opt_g.step()
