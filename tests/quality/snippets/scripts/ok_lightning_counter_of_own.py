# expect: nothing
# mechanism: manual optimization, a counter of the module's own goes on over the epochs: windows cross their ends
import lightning as L
import torch
import torch.nn.functional as F


class Lit(L.LightningModule):
    def __init__(self, net, bank, every=4):
        super().__init__()
        self.automatic_optimization = False
        self.net, self.bank, self.every, self.micro = net, bank, every, 0

    def configure_optimizers(self):
        return torch.optim.AdamW(self.net.parameters())

    def apply_update(self):
        optimizer = self.optimizers()
        self.clip_gradients(optimizer, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
        optimizer.step()

    def training_step(self, batch, batch_idx):
        rows = torch.randint(0, len(self.bank), (8,))
        x = self.bank[rows]
        self.manual_backward(F.mse_loss(self.net(x), x) / self.every)
        self.micro += 1
        if self.micro % self.every == 0:
            self.apply_update()
            self.optimizers().zero_grad()
