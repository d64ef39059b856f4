# mechanism: microbatches are popped from a list until K are done or none is left
import torch.nn.functional as F


def epoch(net, opt, parts, K):
    queue = list(parts)
    while queue:
        opt.zero_grad()
        for _ in range(min(K, len(queue))):
            x = queue.pop()
            (F.mse_loss(net(x), x) / K).backward()  # expect: ACC107
        opt.step()
