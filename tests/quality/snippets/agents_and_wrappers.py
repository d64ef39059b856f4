# expect: nothing
# mechanism: agents, delayed actors, thin wrappers and probes: whoever counts here, no window is accumulated
import torch
import torch.nn.functional as F


class Agent:
    """Reinforcement learning: learns every few calls, from a buffer."""

    def __init__(self, net, target, update_every):
        self.net, self.target, self.update_every = net, target, update_every
        self.opt = torch.optim.Adam(net.parameters())
        self.calls = 0

    def observe(self, memory):
        self.calls += 1
        if self.calls % self.update_every == 0:
            s, a, r, n = memory.sample()
            with torch.no_grad():
                goal = r + 0.99 * self.target(n).max(1).values
            loss = F.mse_loss(self.net(s).gather(1, a), goal)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()


class Delayed:
    def __init__(self, actor, critic, delay):
        self.actor, self.critic, self.delay = actor, critic, delay
        self.oa = torch.optim.Adam(actor.parameters())
        self.oc = torch.optim.Adam(critic.parameters())
        self.total = 0

    def train(self, memory):
        self.total += 1
        s, a, y = memory.sample()
        loss = F.mse_loss(self.critic(s, a), y)
        self.oc.zero_grad()
        loss.backward()
        self.oc.step()
        if self.total % self.delay == 0:
            self.oa.zero_grad()
            (-self.critic(s, self.actor(s)).mean()).backward()
            self.oa.step()


class Model:
    """The pix2pix kind: set_input, optimize_parameters; steps taken by methods beside the backwards."""

    def __init__(self, G, D):
        self.G, self.D = G, D
        self.og = torch.optim.Adam(G.parameters())
        self.od = torch.optim.Adam(D.parameters())

    def set_input(self, batch):
        self.real_a, self.real_b = batch

    def backward_d(self):
        fake = self.G(self.real_a).detach()
        (F.mse_loss(self.D(fake), torch.zeros(1)) + F.mse_loss(self.D(self.real_b), torch.ones(1))).backward()

    def backward_g(self):
        F.l1_loss(self.G(self.real_a), self.real_b).backward()

    def optimize_parameters(self):
        self.od.zero_grad()
        self.backward_d()
        self.od.step()
        self.og.zero_grad()
        self.backward_g()
        self.og.step()


class Wrapper:
    """A thin optimizer: the caller decides."""

    def __init__(self, opt, warmup):
        self.opt, self.warmup = opt, warmup
        self.n = 0

    def backward(self, loss):
        loss.backward()

    def step(self):
        self.n += 1
        for group in self.opt.param_groups:
            group["lr"] = min(1.0, self.n / self.warmup)
        self.opt.step()

    def zero_grad(self):
        self.opt.zero_grad()


class Logged:
    def __init__(self, net, every):
        self.net, self.every = net, every
        self.opt = torch.optim.Adam(net.parameters())
        self.n = 0

    def learn(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.last = loss.item()
        self.n += 1

    def apply(self):
        if self.n % self.every == 0:
            print(self.last)
        self.opt.step()
        self.opt.zero_grad()


def fgsm(net, images, labels, opt):
    for x, y in zip(images, labels):
        x.requires_grad_(True)
        F.cross_entropy(net(x), y).backward()
        x = x + 0.1 * x.grad.sign()
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def noise_scale(net, loader, opt, params):
    for x, y in loader:
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        norm = 0.0
        for p in params:
            norm += p.grad.norm() ** 2
        for p in params:
            p.grad.add_(torch.randn_like(p.grad) * 0.01)
        opt.step()


def shared_lists(net, heads, loader, opt, n):
    for x, ys in loader:
        opt.zero_grad()
        feats = net(x)
        losses = [F.cross_entropy(h(feats), y) for h, y in zip(heads, ys)]
        for each in losses:
            (each / len(losses)).backward(retain_graph=True)
        opt.step()


def wd_closure(net, loader, steps):
    opt = torch.optim.LBFGS(net.parameters(), max_iter=20)
    for x, y in loader:
        parts = x.chunk(steps)
        targets = y.chunk(steps)

        def closure():
            opt.zero_grad()
            total = 0.0
            for p, t in zip(parts, targets):
                loss = F.mse_loss(net(p), t, reduction="sum") / y.numel()
                loss.backward()
                total += float(loss)
            return total

        opt.step(closure)
