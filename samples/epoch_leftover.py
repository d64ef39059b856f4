"""Autoencoder over full batches; the epoch's last microbatches fill no window."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader


def train(model, images, optimizer, args):
    loader = DataLoader(images, batch_size=args.batch_size, shuffle=True, drop_last=True)
    criterion = nn.MSELoss()
    optimizer.zero_grad()
    updates = 0
    for epoch in range(args.epochs):
        epoch_loss = 0.0
        for i, batch in enumerate(loader):
            loss = criterion(model(batch), batch)
            epoch_loss += loss.item()
            (loss / args.accumulate).backward()
            if (i + 1) % args.accumulate == 0:  # expect: ACC304
                optimizer.step()
                optimizer.zero_grad()
                updates += 1
        if not args.quiet:
            print(f"epoch {epoch}: {updates} updates, loss {epoch_loss / len(loader):.4f}")
    return updates


def parse(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args(argv)


def main():
    args = parse()
    torch.manual_seed(0)
    images = torch.rand(64, 3) @ torch.randn(3, 12)
    model = nn.Sequential(nn.Linear(12, 3), nn.Tanh(), nn.Linear(3, 12))
    train(model, images, torch.optim.Adam(model.parameters(), lr=1e-2), args)


if __name__ == "__main__":
    main()
