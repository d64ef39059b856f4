# mechanism: fairseq builds its optimizer: multiply_grads divides what it holds
import torch.nn.functional as F
from fairseq import optim


class Trainer:
    def __init__(self, args, model, steps):
        self.model, self.steps = model, steps
        self._optimizer = optim.build_optimizer(args, model.parameters())

    @property
    def optimizer(self):
        return self._optimizer

    def train_step(self, samples):
        self.optimizer.zero_grad()
        total = 0
        for sample in samples:
            loss = F.cross_entropy(self.model(sample["x"]), sample["y"], ignore_index=1, reduction="sum")
            self.optimizer.backward(loss)
            total += (sample["y"] != 1).sum()
        self.optimizer.multiply_grads(1.0 / total)
        self.optimizer.clip_grad_norm(1.0)
        self.optimizer.step()


class Wrong:
    def __init__(self, args, model, steps):
        self.model, self.steps = model, steps
        self.optimizer = optim.FP16Optimizer.build_optimizer(args, list(model.parameters()))

    def train_step(self, samples):
        self.optimizer.zero_grad()
        for sample in samples:
            loss = F.cross_entropy(self.model(sample["x"]), sample["y"], ignore_index=1)
            self.optimizer.backward(loss)  # expect: ACC101
        self.optimizer.multiply_grads(1.0 / len(samples))
        self.optimizer.clip_grad_norm(1.0)
        self.optimizer.step()
