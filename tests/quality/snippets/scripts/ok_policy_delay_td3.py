# expect: nothing
# mechanism: TD3's delayed policy update
import torch
import torch.nn.functional as F


class TD3:
    def __init__(self, actor, critic, actor_t, critic_t, delay=2):
        self.actor, self.critic, self.actor_t, self.critic_t = actor, critic, actor_t, critic_t
        self.a_opt = torch.optim.Adam(actor.parameters(), lr=3e-4)
        self.c_opt = torch.optim.Adam(critic.parameters(), lr=3e-4)
        self.delay, self.it = delay, 0

    def train(self, buffer, batch=256):
        self.it += 1
        s, a, s2, r, nd = buffer.sample(batch)
        with torch.no_grad():
            q = r + nd * 0.99 * torch.min(*self.critic_t(s2, self.actor_t(s2)))
        q1, q2 = self.critic(s, a)
        loss = F.mse_loss(q1, q) + F.mse_loss(q2, q)
        self.c_opt.zero_grad()
        loss.backward()
        self.c_opt.step()
        if self.it % self.delay == 0:
            actor_loss = -self.critic(s, self.actor(s))[0].mean()
            self.a_opt.zero_grad()
            actor_loss.backward()
            self.a_opt.step()
