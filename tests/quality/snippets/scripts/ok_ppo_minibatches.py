# expect: nothing
# mechanism: PPO: several epochs over the rollout, a step for each minibatch
import torch


def update(policy, optimizer, rollout, epochs=4, minibatch=64, clip=0.2):
    size = rollout["obs"].size(0)
    for _ in range(epochs):
        order = torch.randperm(size)
        for start in range(0, size, minibatch):
            idx = order[start : start + minibatch]
            dist, value = policy(rollout["obs"][idx])
            ratio = (dist.log_prob(rollout["act"][idx]) - rollout["logp"][idx]).exp()
            adv = rollout["adv"][idx]
            pg = -torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()
            loss = pg + 0.5 * (value - rollout["ret"][idx]).pow(2).mean() - 0.01 * dist.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()
