# mechanism: rows of the batch against rows of the batch, transposed; labels come from the loader, one side is stored
from contextlib import nullcontext

import torch
import torch.nn.functional as F


def train(model, loader, optimizer, steps, frozen):
    for i, batch in enumerate(loader):
        with torch.no_grad() if frozen else nullcontext():
            queries = model(batch["query"])
        scores = torch.matmul(queries, batch["embedding"].t())
        loss = F.nll_loss(F.log_softmax(scores, dim=-1), batch["labels"]) / steps
        loss.backward()  # expect-optin: ACC402
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()


def train_with_length(query_model, text_model, loader, optimizer, steps):
    for i, batch in enumerate(loader):
        queries, texts = query_model(batch["query"]), text_model(batch["text"])
        loss = F.cross_entropy(queries @ texts.T, torch.arange(8)) + 0.1 * F.mse_loss(texts, batch["target"])
        (loss / steps).backward()  # expect-optin: ACC402
        if (i + 1) % steps == 0:  # expect: ACC304
            optimizer.step()
            optimizer.zero_grad()


def train_tied(model, embedding, loader, optimizer, steps):
    for i, (ids, labels) in enumerate(loader):
        logits = model(ids) @ embedding.weight.T
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0)
        (loss / steps).backward()  # expect: ACC101
        if (i + 1) % steps == 0:  # expect: ACC304
            optimizer.step()
            optimizer.zero_grad()
