# expect: nothing
# mechanism: the clearing is guarded by the first microbatch of the window
import torch
import torch.nn.functional as F


class Fit:
    def __init__(self, model, bank, accum):
        self.model, self.bank, self.accum = model, bank, accum
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def run(self, updates):
        for step in range(updates * self.accum):
            if step % self.accum == 0:
                self.opt.zero_grad()
            x = self.bank[torch.randint(0, len(self.bank), (8,))]
            loss = F.mse_loss(self.model(x), x) / self.accum
            loss.backward()
            if step % self.accum == self.accum - 1:
                self.opt.step()
