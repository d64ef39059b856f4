# mechanism: the step helper clips first and unscales afterwards
import torch
import torch.nn.functional as F


class AmpRunner:
    def __init__(self, model, lr, accum):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.scaler = torch.cuda.amp.GradScaler()
        self.accum = accum

    def _apply(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)  # expect: ACC202
        self.scaler.unscale_(self.optimizer)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def fit(self, x, y, updates, size):
        for _ in range(updates):
            for _ in range(self.accum):
                rows = torch.randint(0, len(x), (size,))
                with torch.cuda.amp.autocast():
                    loss = F.mse_loss(self.model(x[rows]), y[rows])
                self.scaler.scale(loss / self.accum).backward()
            self._apply()
