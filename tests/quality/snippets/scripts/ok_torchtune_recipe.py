# expect: nothing
# mechanism: torchtune's recipe: mean times tokens, gradients scaled by world size over tokens
import torch
from torchtune import training


class Recipe:
    def __init__(self, model, optimizer, loader, loss_fn, accum, world_size):
        self._model, self._optimizer, self._dataloader = model, optimizer, loader
        self._loss_fn, self._accum, self.world_size = loss_fn, accum, world_size

    def _loss_step(self, batch):
        labels = batch.pop("labels")
        logits = self._model(**batch)
        return self._loss_fn(logits, labels)

    def train(self, epochs):
        running = 0
        num_tokens = 0
        for _ in range(epochs):
            for idx, batch in enumerate(self._dataloader):
                current = (batch["labels"] != self._loss_fn.ignore_index).sum()
                num_tokens += current
                loss = self._loss_step(batch) * current
                running += loss.detach()
                loss.backward()
                if (idx + 1) % self._accum == 0 or idx + 1 == len(self._dataloader):
                    torch.distributed.all_reduce(num_tokens)
                    training.scale_grads(self._model, self.world_size / num_tokens)
                    torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
                    self._optimizer.step()
                    self._optimizer.zero_grad(set_to_none=True)
                    running = 0
                    num_tokens = 0
