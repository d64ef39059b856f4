"""Mixed precision with a GradScaler; on a machine without CUDA the scaler is switched off."""

import torch
import torch.nn.functional as F
from torch import nn

BLOCK = 6


class NextToken(nn.Module):
    def __init__(self, vocabulary, width=16):
        super().__init__()
        self.body = nn.Sequential(nn.Embedding(vocabulary, width), nn.Linear(width, width), nn.Tanh())
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.body(tokens))


def rows_at_random(tokens, batch_size):
    starts = torch.randint(len(tokens) - BLOCK, (batch_size,)).tolist()
    return torch.stack([tokens[s : s + BLOCK + 1] for s in starts])


def train(model, tokens, optimizer, scaler, updates, accumulation_steps=4, max_norm=1.0, device="cpu"):
    for update in range(updates):
        shown = 0.0
        for _ in range(accumulation_steps):
            rows = rows_at_random(tokens, batch_size=4).to(device)
            with torch.autocast(device, enabled=scaler.is_enabled()):
                logits = model(rows[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
            shown += loss.item() / accumulation_steps
            scaler.scale(loss / accumulation_steps).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # expect: ACC202
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if update % 10 == 0:
            print(f"update {update}: loss {shown:.3f}")


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokens = torch.arange(400) ** 2 % 17
    model = NextToken(17).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
    train(model, tokens, optimizer, scaler, updates=30, device=device)


if __name__ == "__main__":
    main()
