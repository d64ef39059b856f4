# mechanism: two optimizers, made by one helper over the parts of one model, take turns; each clears before its turn
# expect: nothing
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader


def make_optimizer(parameters, rate):
    return torch.optim.AdamW(parameters, lr=rate)


def endless(loader):
    while True:
        yield from loader


class AutoencoderTrainer:
    def __init__(self, autoencoder, images, every, limit, batch_size):
        self.accelerator = Accelerator()
        self.autoencoder = autoencoder
        self.every, self.limit = every, limit
        everything, critic = set(autoencoder.parameters()), set(autoencoder.critic.parameters())
        self.optimizer = make_optimizer(everything - critic, 3e-4)
        self.critic_optimizer = make_optimizer(critic, 1e-4)
        loader = DataLoader(images, batch_size=batch_size, drop_last=True)
        self.autoencoder, self.optimizer, self.critic_optimizer, loader = self.accelerator.prepare(
            self.autoencoder, self.optimizer, self.critic_optimizer, loader
        )
        self.batches = endless(loader)
        self.count = 0

    def update(self):
        inner = self.autoencoder.module if self.accelerator.num_processes > 1 else self.autoencoder
        critic = inner.critic
        for _ in range(self.every):
            image = next(self.batches)
            loss = self.autoencoder(image, reconstruct=True)
            self.accelerator.backward(loss / self.every)
        self.accelerator.clip_grad_norm_(self.autoencoder.parameters(), self.limit)
        self.optimizer.step()
        self.optimizer.zero_grad()

        self.critic_optimizer.zero_grad()
        for _ in range(self.every):
            image = next(self.batches)
            loss = self.autoencoder(image, criticise=True)
            self.accelerator.backward(loss / self.every)
        self.accelerator.clip_grad_norm_(critic.parameters(), self.limit)
        self.critic_optimizer.step()

    def train(self, steps):
        while self.count < steps:
            self.update()
            self.count += 1
