# mechanism: manual optimization, self.clip_gradients runs in every training_step
import pytorch_lightning as pl
import torch
import torch.nn.functional as F


class Model(pl.LightningModule):
    def __init__(self, net, every):
        super().__init__()
        self.net, self.every = net, every
        self.automatic_optimization = False
        self.count = 0

    def training_step(self, batch, _):
        optimizer = self.optimizers()
        x = torch.randn(8, 4, device=self.device)
        loss = F.mse_loss(self.net(x), x)
        self.manual_backward(loss / self.every)
        self.clip_gradients(optimizer, gradient_clip_val=0.5, gradient_clip_algorithm="norm")  # expect: ACC201
        self.count += 1
        if self.count % self.every == 0:
            optimizer.step()
            optimizer.zero_grad()

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=1e-3)
