# expect: nothing
# mechanism: REINFORCE with one loss a sequence; windows of equally many sequences
import torch


def step(policy, opt, prompts, accum, rows, reward_fn):
    opt.zero_grad()
    for _ in range(accum):
        picks = prompts[torch.randint(0, len(prompts), (rows,))]
        with torch.no_grad():
            answers = policy.generate(picks)
            rewards = reward_fn(picks, answers)
        logp = policy.log_prob(picks, answers).sum(-1)
        loss = -(logp * (rewards - rewards.mean())).mean()
        (loss / accum).backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    opt.step()
