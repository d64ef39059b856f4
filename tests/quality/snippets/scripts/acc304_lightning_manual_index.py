# mechanism: manual optimization by batch_idx, which starts anew each epoch
import lightning as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


class Lit(L.LightningModule):
    def __init__(self, net, accumulate):
        super().__init__()
        self.automatic_optimization = False
        self.net, self.accumulate = net, accumulate

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        return optimizer

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        loss = F.mse_loss(self.net(batch), batch) / self.accumulate
        self.manual_backward(loss)
        if (batch_idx + 1) % self.accumulate == 0:  # expect: ACC304
            optimizer.step()
            optimizer.zero_grad()


def loader(dataset):
    return DataLoader(dataset, batch_size=8, drop_last=True)
