# mechanism: windows inside epochs over updates over rollouts: the loops around a window are run twice, not in full
import torch
from recipe import build, roll


class Rollouts:
    def __init__(self, cfg):
        self.policy = build(cfg.policy)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=cfg.lr)
        self.loader = torch.utils.data.DataLoader(build(cfg.data), cfg.batch_size)
        self.loss_fn = build(cfg.loss)
        self.accum = cfg.accum
        self.batch, self.mini, self.micro = cfg.batch_size, cfg.mini, cfg.mini // cfg.accum

    def ppo_step(self, responses, masks):
        loss, ratios = self.loss_fn(self.policy(responses), padding_masks=~masks)
        loss /= self.accum
        loss.backward()  # expect: ACC101
        return loss.detach(), ratios

    def train(self, epochs, updates):
        for _ in range(epochs):
            for batch in self.loader:
                responses, masks = roll(self.policy, batch)
                for _ in range(updates):
                    order = torch.randperm(self.batch)
                    for start in range(0, self.batch, self.mini):
                        chosen = order[start : start + self.mini]
                        for first in range(0, self.mini, self.micro):
                            part = chosen[first : first + self.micro]
                            self.ppo_step(responses[part], masks[part])
                        self.optimizer.step()
                        self.optimizer.zero_grad()
