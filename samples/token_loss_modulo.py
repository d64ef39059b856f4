"""Fine-tunes a tiny language model on prompt/answer pairs; only answer tokens are targets."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

IGNORE_INDEX = -100
VOCABULARY = 32


class TinyLanguageModel(nn.Module):
    def __init__(self, vocabulary=VOCABULARY, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.mixer = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        hidden, _ = self.mixer(self.embedding(tokens))
        return self.head(hidden)


def pad_pairs(pairs):
    """Pads to the longest pair; the prompt and the padding carry no target."""
    longest = max(len(prompt) + len(answer) for prompt, answer in pairs)
    tokens = torch.zeros(len(pairs), longest, dtype=torch.long)
    labels = torch.full((len(pairs), longest), IGNORE_INDEX)
    for row, (prompt, answer) in enumerate(pairs):
        tokens[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        labels[row, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer)
    return tokens, labels


def train(model, loader, optimizer, epochs=2, accumulation_steps=4, max_norm=1.0):
    model.train()
    for epoch in range(epochs):
        running = 0.0
        for step, (tokens, labels) in enumerate(loader):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.transpose(1, 2), labels[:, 1:], ignore_index=IGNORE_INDEX)
            running += loss.item()
            loss = loss / accumulation_steps
            loss.backward()  # expect: ACC101

            if (step + 1) % accumulation_steps == 0:  # expect: ACC304
                nn.utils.clip_grad_norm_(model.parameters(), max_norm)
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch}: mean microbatch loss {running / len(loader):.3f}")


def main():
    torch.manual_seed(0)
    pairs = []
    for _ in range(36):
        lengths = torch.randint(1, 9, (2,)).tolist()
        pairs.append(tuple(torch.randint(1, VOCABULARY, (length,)).tolist() for length in lengths))
    model = TinyLanguageModel()
    loader = DataLoader(pairs, batch_size=2, shuffle=True, collate_fn=pad_pairs)
    train(model, loader, torch.optim.AdamW(model.parameters(), lr=3e-3))


if __name__ == "__main__":
    main()
