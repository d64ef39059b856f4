# mechanism: zero_grad at the top of each epoch throws the leftover gradients away
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from tqdm import tqdm


class AmpTrainer:
    def __init__(self, model, dataset, hp):
        self.model, self.hp = model, hp
        self.loader = DataLoader(dataset, hp.batch, shuffle=True, drop_last=True)
        self.opt = torch.optim.AdamW(model.parameters(), lr=hp.lr)
        self.scaler = torch.amp.GradScaler()

    def epoch(self):
        self.opt.zero_grad()
        progress = tqdm(self.loader, desc="train")
        for i, (x, y) in enumerate(progress):
            with torch.autocast("cuda"):
                loss = F.cross_entropy(self.model(x.cuda()), y.cuda())
            self.scaler.scale(loss / self.hp.accum).backward()
            if (i + 1) % self.hp.accum == 0:  # expect: ACC304
                self.scaler.unscale_(self.opt)
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.scaler.step(self.opt)
                self.scaler.update()
                self.opt.zero_grad()
            progress.set_postfix(loss=loss.item())

    def fit(self):
        for _ in range(self.hp.epochs):
            self.epoch()
