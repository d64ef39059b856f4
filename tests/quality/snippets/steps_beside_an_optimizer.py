# mechanism: schedules out of a list, and a moving average of the weights, have a step but no gradient
# expect: nothing
import lightning
import torch
import torch.nn.functional as F


class TwoParts(lightning.LightningModule):
    automatic_optimization = False

    def training_step(self, batch, index):
        backbone, head = self.optimizers()
        schedules = self.lr_schedulers()
        for task in batch.keys():
            loss = F.mse_loss(self(batch[task]["rows"]), batch[task]["targets"])
            backbone.zero_grad()
            head.zero_grad()
            self.manual_backward(loss)
            backbone.step()
            head.step()
        if schedules is not None:
            first, second = schedules
            first.step()
            second.step()


def train_agent(losses, target_updater, buffer, delay, total):
    actor_optimizer = torch.optim.Adam(losses.actor_weights())
    critic_optimizer = torch.optim.Adam(losses.critic_weights())

    def update(batch, with_actor):
        critic_loss = losses.critic(batch)
        critic_loss.backward()
        critic_optimizer.step()
        critic_optimizer.zero_grad()
        if with_actor:
            actor_loss = losses.actor(batch)
            actor_loss.backward()
            actor_optimizer.step()
            actor_optimizer.zero_grad()
            target_updater.step()

    for step in range(total):
        with_actor = step % delay == 0
        update(buffer.sample(), with_actor)
