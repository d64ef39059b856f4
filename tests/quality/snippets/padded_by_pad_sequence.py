# mechanism: a collate function that pads its targets says that counts differ
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


def collate(rows):
    inputs = pad_sequence([row["x"] for row in rows], batch_first=True)
    labels = pad_sequence([row["y"] for row in rows], batch_first=True, padding_value=-100)
    return inputs, labels


def equal_means(model, data, optimizer, accum):
    loader = DataLoader(data, batch_size=8, collate_fn=collate, drop_last=True)
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / accum
        loss.backward()  # expect: ACC101
        if (i + 1) % accum == 0:  # expect: ACC304
            optimizer.step()
            optimizer.zero_grad()


def counted(model, data, optimizer, accum):
    loader = DataLoader(data, batch_size=8, collate_fn=collate, drop_last=True)
    count = 0
    for i, (x, y) in enumerate(loader):
        F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").backward()
        count += (y != -100).sum()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            for p in model.parameters():
                p.grad.div_(count)
            optimizer.step()
            optimizer.zero_grad()
            count = 0
