# mechanism: automatic optimization: the rest of an epoch steps, divided by accumulate_grad_batches
import lightning as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


class AutoEncoder(L.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def training_step(self, batch, batch_idx):
        loss = F.mse_loss(self.net(batch), batch)
        self.log("train_loss", loss)
        return loss  # expect: ACC107

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(net, dataset):
    loader = DataLoader(dataset, batch_size=32, drop_last=True)
    trainer = L.Trainer(max_steps=1000, accumulate_grad_batches=4)
    trainer.fit(AutoEncoder(net), loader)
