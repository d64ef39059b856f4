# mechanism: batchmean divides by the rows of the batch: equal but for the short last batch
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


def distil(teacher, student, dataset, optimizer, accum=4, T=4.0):
    loader = DataLoader(dataset, batch_size=64)
    pending = 0
    sizes = len(loader)
    for seen, (x, _) in enumerate(loader, 1):
        with torch.no_grad():
            soft = F.softmax(teacher(x) / T, dim=1)
        loss = F.kl_div(F.log_softmax(student(x) / T, dim=1), soft, reduction="batchmean") * T * T
        loss = loss / accum
        loss.backward()  # expect: ACC102, ACC107
        pending += 1
        if pending == accum or seen == sizes:
            optimizer.step()
            optimizer.zero_grad()
            pending = 0
