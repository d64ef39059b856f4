# mechanism: an optimizer wrapper with backward, step and zero_grad is cleared before its first backward
class Trainer:
    def __init__(self, model, loss, optim, loader, count):
        self.model, self.loss, self.optim = model, loss, optim
        self.loader, self.count = loader, count

    def train(self, epochs):
        self.optim.zero_grad(set_to_none=True)
        for _ in range(epochs):
            for index, batch in enumerate(self.loader):
                loss = self.loss(self.model(batch["src"]), batch["tgt"])
                loss /= self.count
                self.optim.backward(loss)  # expect: ACC102
                if (index + 1) % self.count == 0:  # expect: ACC304
                    self.optim.step()
                    self.optim.zero_grad()
