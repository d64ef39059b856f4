# mechanism: BatchNorm2d in a submodule of a submodule, the trainer class owns the model
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return x + torch.relu(self.norm(self.conv(x)))


class Denoiser(nn.Module):
    def __init__(self, width=16, depth=4):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 1)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


class Trainer:
    def __init__(self, images, accum):
        self.model = Denoiser()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.images, self.accum = images, accum

    def update(self):
        self.optimizer.zero_grad()
        for _ in range(self.accum):
            clean = self.images[torch.randint(0, len(self.images), (4,))]
            noisy = clean + 0.1 * torch.randn_like(clean)
            loss = nn.functional.mse_loss(self.model(noisy), clean) / self.accum
            loss.backward()  # expect-optin: ACC401
        self.optimizer.step()
