# mechanism: manual optimization divides nowhere
import lightning as L
import torch
import torch.nn.functional as F


class LitRegressor(L.LightningModule):
    def __init__(self, net, accumulate=4):
        super().__init__()
        self.automatic_optimization = False
        self.net = net
        self.accumulate = accumulate
        self.seen = 0

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)

    def training_step(self, batch, batch_idx):
        opt = self.optimizers()
        x, y = batch
        loss = F.mse_loss(self.net(x), y)
        self.manual_backward(loss)  # expect: ACC103
        self.seen += 1
        if self.seen % self.accumulate == 0:
            self.clip_gradients(opt, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
            opt.step()
            opt.zero_grad()
        self.log("train_loss", loss)
