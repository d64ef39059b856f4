# mechanism: wandb receives what was divided for the backward
import torch
import torch.nn.functional as F
import wandb


class Runner:
    def __init__(self, net, bank, cfg):
        self.net, self.bank, self.cfg = net, bank, cfg
        self.opt = torch.optim.AdamW(net.parameters())

    def train(self):
        for step in range(self.cfg.steps):
            for _ in range(self.cfg.accum):
                x = self.bank[torch.randint(0, len(self.bank), (8,))]
                loss = F.mse_loss(self.net(x), x) / self.cfg.accum
                loss.backward()
            self.opt.step()
            self.opt.zero_grad()
            wandb.log({"loss": loss.item(), "step": step})  # expect-optin: ACC403
