# mechanism: Accelerator with gradient_accumulation_steps and a manual division of the same number
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from accelerate import Accelerator


@dataclass
class Config:
    accumulation: int = 4
    lr: float = 1e-4
    batch: int = 8
    updates: int = 1000


class DiffusionTrainer:
    def __init__(self, unet, latents, config: Config):
        self.config = config
        self.accelerator = Accelerator(gradient_accumulation_steps=config.accumulation)
        optimizer = torch.optim.AdamW(unet.parameters(), lr=config.lr)
        self.unet, self.optimizer = self.accelerator.prepare(unet, optimizer)
        self.latents = latents

    def step(self):
        pick = torch.randint(0, len(self.latents), (self.config.batch,))
        clean = self.latents[pick]
        with self.accelerator.accumulate(self.unet):
            noise = torch.randn_like(clean)
            loss = F.mse_loss(self.unet(clean + noise), noise)
            loss = loss / self.config.accumulation  # expect: ACC104
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.detach()

    def run(self):
        for _ in range(self.config.updates * self.config.accumulation):
            self.step()
