# expect: nothing
# mechanism: DQN learns every fourth environment step: `step % 4` is no window
import torch
import torch.nn.functional as F


def train(env, q, target, buffer, optimizer, steps, learn_every=4, sync_every=1000):
    state = env.reset()
    for step in range(steps):
        action = int(q(state).argmax())
        following, reward, done = env.step(action)
        buffer.add(state, action, reward, following, done)
        state = env.reset() if done else following
        if step % learn_every == 0 and len(buffer) > 1000:
            s, a, r, s2, d = buffer.sample(32)
            with torch.no_grad():
                y = r + 0.99 * (1 - d) * target(s2).max(1).values
            loss = F.smooth_l1_loss(q(s).gather(1, a).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(q.parameters(), 10)
            optimizer.step()
        if step % sync_every == 0:
            target.load_state_dict(q.state_dict())
