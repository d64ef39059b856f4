"""Tags words of sentences of different lengths; whole windows are drawn with next() from an iterator."""

import torch
from torch import nn

PAD_TAG = 0
TAGS = 5


class Tagger(nn.Module):
    def __init__(self, vocabulary=20, width=12):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.hidden = nn.Linear(width, width)
        self.tags = nn.Linear(width, TAGS)

    def forward(self, words):
        return self.tags(torch.tanh(self.hidden(self.words(words))))


def train(model, batches, optimizer, accumulation_steps=3):
    """`batches` holds (words, tags) of shape [batch, length]; padded positions have tag PAD_TAG."""
    criterion = nn.CrossEntropyLoss(ignore_index=PAD_TAG)
    iterator = iter(batches)
    updates = len(batches) // accumulation_steps
    curve = []
    for _ in range(updates):
        optimizer.zero_grad()
        window_loss = 0.0
        for _ in range(accumulation_steps):
            words, tags = next(iterator)
            scores = model(words)
            loss = criterion(scores.view(-1, TAGS), tags.view(-1)) / accumulation_steps
            loss.backward()  # expect: ACC101
            window_loss += loss.detach()
        optimizer.step()
        curve.append(float(window_loss))
    return curve


def make_batches(count, batch=4, longest=9):
    batches = []
    for _ in range(count):
        words = torch.randint(1, 20, (batch, longest))
        tags = words % (TAGS - 1) + 1
        lengths = torch.randint(1, longest + 1, (batch, 1))
        tags[torch.arange(longest) >= lengths] = PAD_TAG
        batches.append((words, tags))
    return batches


def main():
    torch.manual_seed(0)
    model = Tagger()
    curve = train(model, make_batches(90), torch.optim.Adam(model.parameters(), lr=2e-2))
    print(f"loss {curve[0]:.3f} -> {curve[-1]:.3f} in {len(curve)} updates")


if __name__ == "__main__":
    main()
