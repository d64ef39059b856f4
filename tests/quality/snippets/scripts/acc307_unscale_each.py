# mechanism: unscale_ for every microbatch, the second call raises
import torch
import torch.nn.functional as F


class Amp:
    def __init__(self, net, bank, accum):
        self.net, self.bank, self.accum = net, bank, accum
        self.opt = torch.optim.AdamW(net.parameters())
        self.scaler = torch.cuda.amp.GradScaler()

    def run(self, total):
        for i in range(total):
            x = self.bank[torch.randint(0, len(self.bank), (8,))]
            with torch.autocast("cuda"):
                loss = F.mse_loss(self.net(x), x) / self.accum
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.opt)  # expect: ACC307
            if (i + 1) % self.accum == 0:
                torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                self.scaler.step(self.opt)
                self.scaler.update()
                self.opt.zero_grad()
