# mechanism: only the logged loss is divided by the number of steps
import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self, model, data, accum_steps=4, batch=8):
        self.model, self.data = model, data
        self.accum_steps, self.batch = accum_steps, batch
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    def get_batch(self):
        ix = torch.randint(0, len(self.data) - 65, (self.batch,)).tolist()
        x = torch.stack([self.data[i : i + 64] for i in ix])
        y = torch.stack([self.data[i + 1 : i + 65] for i in ix])
        return x.to(self.device), y.to(self.device)

    def train(self, iters):
        for it in range(iters):
            logged = 0.0
            for _ in range(self.accum_steps):
                x, y = self.get_batch()
                loss = F.cross_entropy(self.model(x).flatten(0, 1), y.flatten())
                logged += loss.item() / self.accum_steps
                loss.backward()  # expect: ACC103
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
            if it % 100 == 0:
                print(it, logged)
