# mechanism: Fabric, a token classification head averages over the labels that are not -100
import lightning as L
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification


def main(dataset, tokenizer, name="bert-base-cased", accumulate=4, updates=500):
    fabric = L.Fabric(accelerator="auto", precision="bf16-mixed")
    model = AutoModelForTokenClassification.from_pretrained(name, num_labels=9)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(
        DataLoader(
            dataset,
            batch_size=8,
            shuffle=True,
            drop_last=True,
            collate_fn=DataCollatorForTokenClassification(tokenizer),
        )
    )
    iterator = iter(loader)
    for update in range(updates):
        for micro in range(accumulate):
            try:
                batch = next(iterator)
            except StopIteration:
                iterator = iter(loader)
                batch = next(iterator)
            with fabric.no_backward_sync(model, enabled=micro < accumulate - 1):
                loss = model(**batch).loss
                fabric.backward(loss / accumulate)  # expect: ACC101
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
