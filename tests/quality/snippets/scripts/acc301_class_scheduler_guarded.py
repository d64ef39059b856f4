# mechanism: only the scheduler and the clearing know the boundary, the step does not
import torch
import torch.nn.functional as F


class Pretrainer:
    def __init__(self, model, cfg, source):
        self.model, self.cfg, self.source = model, cfg, source
        self.opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg.updates)

    def micro_step(self, index):
        rows = torch.randint(0, len(self.source), (self.cfg.batch,))
        x = self.source[rows]
        loss = F.mse_loss(self.model(x), x) / self.cfg.accumulate
        loss.backward()
        self.opt.step()  # expect: ACC301
        if (index + 1) % self.cfg.accumulate == 0:
            self.sched.step()
            self.opt.zero_grad()

    def run(self):
        for index in range(self.cfg.updates * self.cfg.accumulate):
            self.micro_step(index)
