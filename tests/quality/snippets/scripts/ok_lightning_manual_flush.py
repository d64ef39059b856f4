# expect: nothing
# mechanism: manual optimization with deferred sums, flushed at the end of the epoch
import lightning as L
import torch
import torch.nn.functional as F


class Lit(L.LightningModule):
    def __init__(self, net, every=4):
        super().__init__()
        self.automatic_optimization = False
        self.net, self.every = net, every
        self.rows = 0

    def configure_optimizers(self):
        return torch.optim.AdamW(self.net.parameters())

    def _update(self):
        opt = self.optimizers()
        for p in self.net.parameters():
            if p.grad is not None:
                p.grad.div_(max(self.rows, 1))
        opt.step()
        opt.zero_grad()
        self.rows = 0

    def training_step(self, batch, batch_idx):
        x, y = batch
        self.manual_backward(F.mse_loss(self.net(x), y, reduction="sum"))
        self.rows += y.numel()
        if (batch_idx + 1) % self.every == 0:
            self._update()

    def on_train_epoch_end(self):
        if self.rows:
            self._update()
