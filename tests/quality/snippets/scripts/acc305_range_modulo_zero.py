# mechanism: the index starts at 0, so the first microbatch is stepped alone
import torch
import torch.nn.functional as F


class Agent:
    def __init__(self, net, memory, accum=4):
        self.net, self.memory, self.accum = net, memory, accum
        self.optimizer = torch.optim.Adam(net.parameters())

    def learn(self, steps):
        for step in range(steps):
            obs = self.memory[torch.randint(0, len(self.memory), (64,))]
            loss = F.mse_loss(self.net(obs), obs)
            (loss / self.accum).backward()
            if step % self.accum == 0:  # expect: ACC305
                torch.nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
                self.optimizer.step()
                self.optimizer.zero_grad()
