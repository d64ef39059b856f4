# expect: nothing
# mechanism: A2C: the losses of the time steps of one rollout are added, one backward, one step


def update(policy, opt, env, horizon, gamma=0.99):
    obs = env.reset()
    logps, values, rewards = [], [], []
    for _ in range(horizon):
        dist, value = policy(obs)
        action = dist.sample()
        obs, reward, done = env.step(action)
        logps.append(dist.log_prob(action))
        values.append(value)
        rewards.append(reward)
    ret, loss = 0.0, 0.0
    for logp, value, reward in zip(reversed(logps), reversed(values), reversed(rewards)):
        ret = reward + gamma * ret
        adv = ret - value
        loss = loss - logp * adv.detach() + 0.5 * adv.pow(2)
    opt.zero_grad()
    (loss / horizon).backward()
    opt.step()
