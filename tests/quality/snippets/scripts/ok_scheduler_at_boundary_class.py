# expect: nothing
# mechanism: everything that belongs to an update is in one method, called at the boundary alone
import torch
import torch.nn.functional as F


class Pipeline:
    def __init__(self, net, bank, accum, updates):
        self.net, self.bank, self.accum, self.updates = net, bank, accum, updates
        self.opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, 1e-3, total_steps=updates)
        self.scaler = torch.amp.GradScaler("cuda")

    def forward_backward(self):
        x = self.bank[torch.randint(0, len(self.bank), (8,))]
        with torch.autocast("cuda", torch.float16):
            loss = F.mse_loss(self.net(x), x) / self.accum
        self.scaler.scale(loss).backward()

    def apply(self):
        self.scaler.unscale_(self.opt)
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.sched.step()
        self.opt.zero_grad(set_to_none=True)

    def run(self):
        for micro in range(1, self.updates * self.accum + 1):
            self.forward_backward()
            if micro % self.accum:
                continue
            self.apply()
