"""A helper returns a dict; the loop trains on one entry."""

import torch.nn.functional as F


def compute(net, ids, labels):
    logits = net(ids)
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=-100)
    hits = (logits.argmax(-1) == labels).sum()
    return {"loss": loss, "hits": hits}


def fit(net, data, optimizer, accum=4):
    correct = 0
    for i, (ids, labels) in enumerate(data):
        result = compute(net, ids, labels)
        loss = result["loss"] / accum
        loss.backward()  # expect: ACC101, ACC107
        correct += int(result["hits"])
        if (i + 1) % accum == 0 or i == len(data) - 1:
            optimizer.step()
            optimizer.zero_grad()
    return correct
