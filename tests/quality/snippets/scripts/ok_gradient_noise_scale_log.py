# expect: nothing
# mechanism: `i % log_every` logs and saves; the loop steps every time
import torch
import torch.nn.functional as F


def train(net, loader, opt, sched, log_every=10, save_every=1000):
    meter = 0.0
    for i, (x, y) in enumerate(loader):
        loss = F.mse_loss(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        meter += loss.item() / log_every
        if i % log_every == 0:
            print(i, meter, sched.get_last_lr()[0])
            meter = 0.0
        if i % save_every == 0:
            torch.save(net.state_dict(), f"{i}.pt")
