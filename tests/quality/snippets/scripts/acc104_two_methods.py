# mechanism: the loss method and the backward method of one class both divide by the number of steps
import torch
import torch.nn.functional as F


class Runner:
    def __init__(self, net, sampler, cfg):
        self.net, self.sampler, self.cfg = net, sampler, cfg
        self.opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
        self.scaler = torch.amp.GradScaler()

    def loss(self, x, y):
        with torch.autocast("cuda", torch.float16):
            loss = F.mse_loss(self.net(x), y)
        return loss / self.cfg.accumulate

    def backward(self, loss):
        loss = loss / self.cfg.accumulate  # expect: ACC104
        self.scaler.scale(loss).backward()

    def update(self):
        for _ in range(self.cfg.accumulate):
            idx = torch.randint(0, len(self.sampler.x), (self.cfg.batch,))
            self.backward(self.loss(self.sampler.x[idx], self.sampler.y[idx]))
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad()
