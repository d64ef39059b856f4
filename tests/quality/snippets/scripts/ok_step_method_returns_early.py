# expect: nothing
# mechanism: the step method returns until the window is full
import torch
import torch.nn.functional as F


class Stepper:
    def __init__(self, net, accum):
        self.net, self.accum = net, accum
        self.opt = torch.optim.AdamW(net.parameters())
        self.calls = 0

    def backward(self, loss):
        (loss / self.accum).backward()

    def step(self):
        self.calls += 1
        if self.calls % self.accum != 0:
            return
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad()


def train(net, bank, accum, total):
    stepper = Stepper(net, accum)
    for _ in range(total):
        x = bank[torch.randint(0, len(bank), (8,))]
        stepper.backward(F.mse_loss(net(x), x))
        stepper.step()
