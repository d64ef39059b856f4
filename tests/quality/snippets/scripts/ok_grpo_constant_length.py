# expect: nothing
# mechanism: token losses are summed and divided by a constant length times the rows of the window
import torch


def step(policy, optimizer, groups, max_len, clip=0.2):
    rows = sum(g["ids"].size(0) for g in groups)
    for g in groups:
        logp = policy(g["ids"])
        ratio = (logp - g["old"]).exp()
        gain = torch.min(ratio * g["adv"], ratio.clamp(1 - clip, 1 + clip) * g["adv"])
        loss = -(gain * g["mask"]).sum() / (rows * max_len)
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
