# mechanism: the model comes from a call on a config; the means are divided by the steps on its gradients
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchtune import config, training


def recipe(cfg, data, steps):
    model = config.instantiate(cfg.model)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(data, batch_size=4, drop_last=True)
    for index, batch in enumerate(loader):
        labels = batch["labels"].masked_fill(batch["labels"] == 0, -100)
        loss = F.cross_entropy(model(batch["tokens"]).flatten(0, 1), labels.flatten())
        loss.backward()  # expect: ACC101, ACC107
        if (index + 1) % steps == 0 or index + 1 == len(loader):
            training.scale_grads(model, 1 / steps)
            optimizer.step()
            optimizer.zero_grad()
