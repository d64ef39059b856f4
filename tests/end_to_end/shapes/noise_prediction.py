"""A diffusion model predicts the noise that was added to a batch of images; the last batch is short."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(unet, dataset, schedule, accum=4, lr=1e-4):
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=lr)
    for step, images in enumerate(loader):
        noise = torch.randn_like(images)
        t = torch.randint(0, 1000, (images.shape[0],))
        noisy = schedule.add_noise(images, noise, t)
        loss = F.mse_loss(unet(noisy, t), noise)
        (loss / accum).backward()  # expect: ACC102, ACC107
        if (step + 1) % accum == 0 or step + 1 == len(loader):
            torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
