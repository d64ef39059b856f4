# mechanism: the learning rate schedule is in the method that runs for every microbatch
import torch
import torch.nn.functional as F
from transformers import get_linear_schedule_with_warmup


class FineTuner:
    def __init__(self, model, cfg, bank):
        self.model, self.cfg, self.bank = model, cfg, bank
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
        self.scheduler = get_linear_schedule_with_warmup(self.optimizer, cfg.warmup, cfg.updates)

    def micro(self):
        x = self.bank[torch.randint(0, len(self.bank), (self.cfg.batch,))]
        loss = F.mse_loss(self.model(x), x)
        (loss / self.cfg.accum).backward()
        self.scheduler.step()  # expect: ACC306
        return loss.item()

    def run(self):
        for _ in range(self.cfg.updates):
            logged = 0.0
            for _ in range(self.cfg.accum):
                logged += self.micro() / self.cfg.accum
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
            self.optimizer.step()
            self.optimizer.zero_grad()
            print(f"{logged:.4f}")
