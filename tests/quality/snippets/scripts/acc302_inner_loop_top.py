# mechanism: the inner loop over microbatches clears at its top
import torch
import torch.nn.functional as F


class Optimise:
    def __init__(self, net, lr):
        self.net, self.opt = net, torch.optim.SGD(net.parameters(), lr=lr)

    def micro(self, x, n):
        self.opt.zero_grad()  # expect: ACC302
        loss = F.mse_loss(self.net(x), x) / n
        loss.backward()
        return loss.detach()

    def update(self, bank, n):
        total = 0.0
        for _ in range(n):
            total += self.micro(bank[torch.randint(0, len(bank), (8,))], n)
        self.opt.step()
        return total
