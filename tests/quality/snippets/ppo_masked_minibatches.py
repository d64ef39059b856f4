# mechanism: within one PPO update the minibatch is split, and the loss is a mean over responses that are padded
import torch


class Policy:
    def __init__(self, cfg, model, loss_fn):
        self.model, self.loss_fn = model, loss_fn
        self.batch_size, self.steps = cfg.batch_size, cfg.steps
        self.micro = self.batch_size // self.steps
        self.optimizer = torch.optim.AdamW(model.parameters())

    def micro_step(self, part, advantages):
        logs = self.model(part.tokens)
        loss = self.loss_fn(part.logprobs, logs, advantages, padding_masks=~part.padding_masks)
        loss /= self.steps
        loss.backward()  # expect: ACC101

    def update(self, rollout, advantages, epochs):
        for _ in range(epochs):
            order = torch.randperm(self.batch_size)
            for start in range(0, self.batch_size, self.micro):
                rows = order[start : start + self.micro]
                self.micro_step(rollout[rows], advantages[rows])
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
