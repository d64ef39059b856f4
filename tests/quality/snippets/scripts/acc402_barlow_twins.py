# mechanism: Barlow Twins' cross-correlation is taken over the rows of a microbatch
import torch


class Barlow:
    def __init__(self, net, images, augment, accum=4, weight=5e-3):
        self.net, self.images, self.augment = net, images, augment
        self.accum, self.weight = accum, weight
        self.opt = torch.optim.Adam(net.parameters())

    def loss(self, a, b):
        a = (a - a.mean(0)) / a.std(0)
        b = (b - b.mean(0)) / b.std(0)
        c = a.T @ b / len(a)
        on = (torch.diagonal(c) - 1).pow(2).sum()
        off = c.pow(2).sum() - torch.diagonal(c).pow(2).sum()
        return on + self.weight * off

    def update(self):
        for _ in range(self.accum):
            x = self.images[torch.randint(0, len(self.images), (64,))]
            loss = self.loss(self.net(self.augment(x)), self.net(self.augment(x))) / self.accum
            loss.backward()  # expect-optin: ACC402
        self.opt.step()
        self.opt.zero_grad()
