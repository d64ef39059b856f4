# mechanism: one zero_grad before the loop, none after the steps
import torch
import torch.nn.functional as F


def train(net, pool, lr, windows, K):
    sgd = torch.optim.SGD(net.parameters(), lr=lr)
    sgd.zero_grad()
    for _ in range(windows):
        for _ in range(K):
            x = pool[torch.randint(0, len(pool), (4,))]
            (F.mse_loss(net(x), x) / K).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        sgd.step()  # expect: ACC303
