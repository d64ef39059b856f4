# expect: nothing
# mechanism: the counter of microbatches is never reset: a window goes over the end of an epoch
import torch
from torch.utils.data import DataLoader


class Loop:
    def __init__(self, net, dataset, accum):
        self.net, self.accum, self.micro = net, accum, 0
        self.loader = DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True)
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def train(self, max_updates):
        updates = 0
        while updates < max_updates:
            for x, y in self.loader:
                loss = torch.nn.functional.mse_loss(self.net(x), y) / self.accum
                loss.backward()
                self.micro += 1
                if self.micro % self.accum == 0:
                    self.opt.step()
                    self.opt.zero_grad()
                    updates += 1
                    if updates == max_updates:
                        return
