# expect: nothing
# mechanism: fairseq's way: sum losses, sample_size summed, optimizer.multiply_grads
from fairseq.optim import FairseqOptimizer


class Trainer:
    def __init__(self, task, model, criterion, optimizer: FairseqOptimizer, clip):
        self.task, self.model, self.criterion = task, model, criterion
        self.optimizer, self.clip = optimizer, clip
        self.num_updates = 0

    def train_step(self, samples):
        self.model.train()
        self.criterion.train()
        self.optimizer.zero_grad()
        sample_size = 0
        for sample in samples:
            loss, size, _ = self.task.train_step(sample, self.model, self.criterion, self.optimizer, self.num_updates)
            sample_size += size
        self.optimizer.multiply_grads(1.0 / (sample_size or 1.0))
        self.optimizer.clip_grad_norm(self.clip)
        self.optimizer.step()
        self.num_updates += 1
