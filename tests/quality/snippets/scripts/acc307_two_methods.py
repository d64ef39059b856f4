# mechanism: the method for a microbatch updates the scaler, the step is in another one
import torch
import torch.nn.functional as F


class Amp:
    def __init__(self, net, bank, accum):
        self.net, self.bank, self.accum = net, bank, accum
        self.opt = torch.optim.AdamW(net.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def backward(self):
        x = self.bank[torch.randint(0, len(self.bank), (8,))]
        with torch.autocast("cuda", torch.float16):
            loss = F.mse_loss(self.net(x), x) / self.accum
        self.scaler.scale(loss).backward()
        self.scaler.update()  # expect: ACC307

    def train(self, updates):
        for _ in range(updates):
            for _ in range(self.accum):
                self.backward()
            self.scaler.step(self.opt)
            self.opt.zero_grad()
