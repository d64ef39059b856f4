# mechanism: Accelerate divides by its number of steps; the loader's last batch is short, and so is the last window
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader


def train(model, dataset, epochs=3):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    criterion = torch.nn.CrossEntropyLoss()
    for _ in range(epochs):
        for images, labels in loader:
            with accelerator.accumulate(model):
                loss = criterion(model(images), labels)
                accelerator.backward(loss)  # expect: ACC102, ACC107
                if accelerator.sync_gradients:
                    accelerator.clip_grad_value_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
