# mechanism: Lightning's automatic optimization divides already; the training_step divides as well
import lightning as L
import torch
import torch.nn.functional as F


class Classifier(L.LightningModule):
    def __init__(self, net, accumulate):
        super().__init__()
        self.net = net
        self.accumulate = accumulate

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        return loss / self.accumulate  # expect: ACC104

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(net, loader, accumulate=4):
    trainer = L.Trainer(max_epochs=3, accumulate_grad_batches=accumulate)
    trainer.fit(Classifier(net, accumulate), loader)
