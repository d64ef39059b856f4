# mechanism: the divided loss goes to TensorBoard
import torch
import torch.nn.functional as F
from torch.utils.tensorboard import SummaryWriter


def train(model, bank, optimizer, accum, total):
    writer = SummaryWriter()
    for i in range(total):
        x = bank[torch.randint(0, len(bank), (8,))]
        loss = F.mse_loss(model(x), x)
        loss = loss / accum
        loss.backward()
        if (i + 1) % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
        writer.add_scalar("train/loss", loss.item(), i)  # expect-optin: ACC403
