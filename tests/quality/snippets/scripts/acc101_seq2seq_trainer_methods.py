# mechanism: a trainer class: the loss in one method, the division in another, the boundary in a third; pads ignored
import torch
from torch import nn


class Seq2SeqTrainer:
    def __init__(self, model, pad_id, lr=3e-4, accumulate=8, grad_clip=1.0):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss(ignore_index=pad_id)
        self.accumulate = accumulate
        self.grad_clip = grad_clip
        self.micro = 0

    def compute(self, batch):
        source, target = batch
        logits = self.model(source, target[:, :-1])
        return self.criterion(logits.reshape(-1, logits.size(-1)), target[:, 1:].reshape(-1))

    def backward(self, loss):
        scaled = loss / self.accumulate
        scaled.backward()  # expect: ACC101

    def optimize(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), self.grad_clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def train_forever(self, stream):
        for batch in stream():
            loss = self.compute(batch)
            self.backward(loss)
            self.micro += 1
            if self.micro % self.accumulate == 0:
                self.optimize()
            yield loss.detach()
