# mechanism: off-policy learner adds the mean losses of several replay samples and steps once
import torch
import torch.nn.functional as F


class Learner:
    def __init__(self, q, target_q, buffer, lr=1e-3, samples=4, batch=32, gamma=0.99):
        self.q, self.target_q, self.buffer = q, target_q, buffer
        self.opt = torch.optim.RMSprop(q.parameters(), lr=lr)
        self.samples, self.batch, self.gamma = samples, batch, gamma

    def update(self):
        self.opt.zero_grad()
        for _ in range(self.samples):
            picks = torch.randint(0, self.buffer.size, (self.batch,))
            s, a, r, s2 = (
                self.buffer.states[picks],
                self.buffer.actions[picks],
                self.buffer.rewards[picks],
                self.buffer.next_states[picks],
            )
            with torch.no_grad():
                goal = r + self.gamma * self.target_q(s2).max(1).values
            value = self.q(s).gather(1, a[:, None]).squeeze(1)
            F.smooth_l1_loss(value, goal).backward()  # expect: ACC103
        self.opt.step()
