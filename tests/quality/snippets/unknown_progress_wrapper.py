# mechanism: the loader goes through a progress bar from the project; the loop is reached all the same
import torch
from torch.utils.data import DataLoader

from project.utils import BAR, autocast


class Engine:
    def __init__(self, model, data, args):
        self.model, self.args = model, args
        self.loader = DataLoader(data, batch_size=args.batch)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def run(self):
        epoch = 0
        while True:
            bar = enumerate(self.loader)
            if self.args.rank in {-1, 0}:
                bar = BAR(enumerate(self.loader), total=len(self.loader))
            for i, batch in bar:
                try:
                    with autocast(self.args.amp):
                        loss, parts = self.model(batch)
                        self.loss = loss.mean() / self.args.steps
                    self.scaler.scale(self.loss).backward()  # expect: ACC102
                except RuntimeError as error:
                    if "memory" not in str(error):
                        raise
                    self.optimizer.zero_grad()
                    break
                if (i + 1) % self.args.steps == 0:  # expect: ACC304
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()
            epoch += 1
            if epoch >= self.args.epochs:
                break
