# mechanism: means are accumulated, then divided by the tokens of the window: the multiplication is on the log only
import torch
from torch.utils.data import DataLoader
from torchtune import config, training


def recipe(cfg, data):
    model = config.instantiate(cfg.model)
    loss_fn = config.instantiate(cfg.loss)
    kd_fn = config.instantiate(cfg.kd_loss)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(data, batch_size=4, drop_last=True)
    tokens, running = 0, 0
    for _ in range(cfg.epochs):
        for index, batch in enumerate(loader):
            count = (batch["labels"] != loss_fn.ignore_index).sum()
            tokens += count
            logits = model(batch["tokens"])
            loss, kd = loss_fn(logits, batch["labels"]), kd_fn(logits, batch["teacher"], batch["labels"])
            running += loss * count
            (0.5 * loss + 0.5 * kd).backward()  # expect: ACC101
            if (index + 1) % cfg.steps == 0 or index + 1 == len(loader):
                training.scale_grads(model, 1 / tokens)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                print(running / tokens)
                tokens, running = 0, 0
