# mechanism: an RNN over padded sequences: the mask comes from the lengths, the mean over valid steps is divided by K
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    def __init__(self, vocabulary, tags, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, tags)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(hidden)


def fit(model, loader, optimizer, epochs=3, K=4):
    for _ in range(epochs):
        batches = iter(loader)
        done = False
        while not done:
            window = 0
            optimizer.zero_grad()
            while window < K:
                try:
                    tokens, lengths, tags = next(batches)
                except StopIteration:
                    done = True
                    break
                logits = model(tokens, lengths)
                mask = torch.arange(tokens.size(1))[None, :] < lengths[:, None]
                nll = nn.functional.cross_entropy(logits.transpose(1, 2), tags, reduction="none")
                loss = (nll * mask).sum() / mask.sum()
                (loss / K).backward()  # expect: ACC101, ACC107
                window += 1
            if window:
                optimizer.step()
