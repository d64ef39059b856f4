# mechanism: the model comes from a call on a config: scale_grads(model, x) still scales what the optimizer steps on
# expect: nothing
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchtune import config, training


def recipe(cfg, data, steps):
    model = config.instantiate(cfg.model)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(data, batch_size=4)
    tokens = 0
    for index, batch in enumerate(loader):
        count = (batch["labels"] != -100).sum()
        tokens += count
        loss = F.cross_entropy(model(batch["tokens"]).flatten(0, 1), batch["labels"].flatten()) * count
        loss.backward()
        if (index + 1) % steps == 0 or index + 1 == len(loader):
            training.scale_grads(model, 1 / tokens)
            optimizer.step()
            optimizer.zero_grad()
            tokens = 0
