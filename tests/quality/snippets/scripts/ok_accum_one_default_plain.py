# expect: nothing
# mechanism: the argument for accumulation is parsed and never used
import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


def main(model, dataset):
    parser = argparse.ArgumentParser()
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(args.epochs):
        for x, y in DataLoader(dataset, batch_size=8):
            loss = F.cross_entropy(model(x), y)  # accumulate loss later
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
