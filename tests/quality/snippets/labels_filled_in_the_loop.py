# mechanism: labels overwritten with -100 before they go to the model are not counted, whatever drop_last says
import torch
from torch.utils.data import DataLoader
import torch.nn.functional as F


def fills_item(net, data, opt, n, pad):
    dl = DataLoader(data, batch_size=4, drop_last=True)
    for i, batch in enumerate(dl):
        batch["labels"][batch["labels"] == pad] = -100
        loss = net(**batch).loss / n
        loss.backward()  # expect: ACC101
        if (i + 1) % n == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()


def fills_prompt(net, data, opt, n):
    dl = DataLoader(data, batch_size=4, drop_last=True)
    for i, batch in enumerate(dl):
        labels = batch["ids"].clone()
        labels[:, : batch["prompt"]] = -100
        loss = net(input_ids=batch["ids"], labels=labels).loss / n
        loss.backward()  # expect: ACC101
        if (i + 1) % n == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()


def fills_where(net, data, opt, n, pad):
    dl = DataLoader(data, batch_size=4, drop_last=True)
    for i, batch in enumerate(dl):
        labels = torch.where(batch["ids"] == pad, -100, batch["ids"])
        loss = net(input_ids=batch["ids"], labels=labels).loss / n
        loss.backward()  # expect: ACC101
        if (i + 1) % n == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()


def fills_ce(net, data, opt, n, pad):
    dl = DataLoader(data, batch_size=4, drop_last=True)
    for i, batch in enumerate(dl):
        labels = batch["ids"].clone()
        labels[batch["ids"] == pad] = -100
        loss = F.cross_entropy(net(batch["ids"]).flatten(0, 1), labels.flatten()) / n
        loss.backward()  # expect: ACC101
        if (i + 1) % n == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()


def dict_collate(tok):
    def collate(rows):
        batch = tok(rows, padding=True)
        labels = batch["input_ids"].clone()
        labels[batch["attention_mask"] == 0] = -100
        batch["labels"] = labels
        return batch

    return collate


def made_collate(net, data, tok, opt, n):
    dl = DataLoader(data, batch_size=4, drop_last=True, collate_fn=dict_collate(tok))
    for i, batch in enumerate(dl):
        loss = net(**batch).loss / n
        loss.backward()  # expect: ACC101
        if (i + 1) % n == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()
