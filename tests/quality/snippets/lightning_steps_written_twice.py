# mechanism: the Trainer's number of steps is a constant of the file, which the training_step divides by as well
import pytorch_lightning as pl
import torch
import torch.nn.functional as F

ACCUMULATE = 4


class Regression(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.mse_loss(self.net(x), y)
        self.log("loss", loss)
        return loss / ACCUMULATE  # expect: ACC104


class Written(pl.LightningModule):
    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.mse_loss(self.forward(x), y)
        return loss / 4  # expect: ACC104


def main(loader):
    trainer = pl.Trainer(max_epochs=3, accumulate_grad_batches=ACCUMULATE)
    trainer.fit(Regression(), loader)
