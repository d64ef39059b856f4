# expect: nothing
# mechanism: manual optimization with two optimizers, each batch steps both
import lightning as L
import torch
import torch.nn.functional as F


class Gan(L.LightningModule):
    def __init__(self, g, d):
        super().__init__()
        self.automatic_optimization = False
        self.g, self.d = g, d

    def training_step(self, batch, batch_idx):
        opt_g, opt_d = self.optimizers()
        real, _ = batch
        fake = self.g(torch.randn(real.size(0), 64, device=self.device))
        g_loss = F.softplus(-self.d(fake)).mean()
        self.toggle_optimizer(opt_g)
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        opt_g.step()
        self.untoggle_optimizer(opt_g)
        d_loss = F.softplus(self.d(fake.detach())).mean() + F.softplus(-self.d(real)).mean()
        opt_d.zero_grad()
        self.manual_backward(d_loss)
        opt_d.step()

    def configure_optimizers(self):
        return torch.optim.Adam(self.g.parameters()), torch.optim.Adam(self.d.parameters())
