# mechanism: torchtune's shard_model is FSDP2, which averages over the ranks; 1 / global count lacks the world size
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchtune import config, training


def recipe(cfg, data, steps, epochs):
    model = config.instantiate(cfg.model)
    training.shard_model(model=model, shard_conditions=[], cpu_offload=False)
    optimizer = torch.optim.AdamW(model.parameters())
    loss_fn = nn.CrossEntropyLoss(ignore_index=-100)
    loader = DataLoader(data, batch_size=4, drop_last=True)
    tokens = 0
    for _ in range(epochs):
        for index, batch in enumerate(loader):
            count = (batch["labels"] != loss_fn.ignore_index).sum()
            tokens += count
            logits = model(batch["tokens"])
            loss = loss_fn(logits.flatten(0, 1), batch["labels"].flatten()) * count
            loss.backward()  # expect: ACC106
            if (index + 1) % steps == 0 or index + 1 == len(loader):
                torch.distributed.all_reduce(tokens)
                training.scale_grads(model, 1 / tokens)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                tokens = 0
