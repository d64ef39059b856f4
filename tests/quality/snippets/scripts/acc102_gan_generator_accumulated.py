# mechanism: both networks of a GAN accumulate; the loader may end with a short batch
import torch
from torch.nn.functional import softplus
from torch.utils.data import DataLoader


def train(generator, critic, dataset, z_dim, epochs, accum):
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    g_opt = torch.optim.Adam(generator.parameters(), lr=1e-4)
    d_opt = torch.optim.Adam(critic.parameters(), lr=4e-4)
    for _ in range(epochs):
        whole = len(loader) // accum * accum
        for step, real in enumerate(loader):
            if step >= whole:
                break
            noise = torch.randn(len(real), z_dim)
            fake = generator(noise)
            d_loss = softplus(-critic(real)).mean() + softplus(critic(fake.detach())).mean()
            (d_loss / accum).backward()  # expect: ACC102
            if (step + 1) % accum == 0:
                d_opt.step()
                d_opt.zero_grad()
                g_opt.zero_grad()
                fake = generator(noise)
                softplus(-critic(fake)).mean().backward()
                g_opt.step()
                g_opt.zero_grad()
                d_opt.zero_grad()
