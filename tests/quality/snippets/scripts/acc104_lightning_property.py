# mechanism: the module reads the Trainer's own number and divides once more
import pytorch_lightning as pl
import torch
from torch import nn


class Lit(pl.LightningModule):
    def __init__(self, model, lr=1e-3):
        super().__init__()
        self.model = model
        self.lr = lr
        self.criterion = nn.CrossEntropyLoss()

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = self.criterion(self.model(x), y)
        loss = loss / self.trainer.accumulate_grad_batches  # expect: ACC104
        self.log("train/loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)
