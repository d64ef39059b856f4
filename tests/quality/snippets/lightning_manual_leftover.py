# mechanism: under manual optimization the Trainer restarts batch_idx with each epoch, as it does for a finite loader
import lightning as L
import torch
import torch.nn.functional as F


class Manual(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = torch.nn.Linear(2, 2)

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        self.manual_backward(F.mse_loss(self.net(batch[0]), batch[1]) / 4)
        if (batch_idx + 1) % 4 == 0:  # expect: ACC304
            optimizer.step()
            optimizer.zero_grad()
