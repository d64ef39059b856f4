# mechanism: supervised fine-tuning, prompt tokens are -100; epochs by `while`, StopIteration starts the loader anew
import torch
from torch import nn


def tokenize(example, tokenizer, limit):
    prompt, answer = tokenizer(example["prompt"]), tokenizer(example["answer"])
    ids = (prompt + answer)[:limit]
    labels = ([-100] * len(prompt) + answer)[:limit]
    return ids, labels


def train(model, loader, lr, total_updates, accumulation):
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    loss_fct = nn.CrossEntropyLoss()
    batches = iter(loader)
    update = 0
    while update < total_updates:
        running = 0.0
        for _ in range(accumulation):
            try:
                batch = next(batches)
            except StopIteration:
                batches = iter(loader)
                batch = next(batches)
            logits = model(batch["input_ids"]).logits
            shift_logits = logits[..., :-1, :].contiguous()
            shift_labels = batch["labels"][..., 1:].contiguous()
            loss = loss_fct(shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1))
            running += loss.item() / accumulation
            (loss / accumulation).backward()  # expect: ACC101
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        update += 1
        print(update, running)
