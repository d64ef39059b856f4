# expect: nothing
# mechanism: Accelerate's recipe for autoregressive models: gathered count, times steps and processes
import torch
from accelerate import Accelerator


def train(model, optimizer, loader, criterion_sum, updates, accum):
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    iterator = iter(loader)
    for _ in range(updates):
        samples = [next(iterator) for _ in range(accum)]
        items = sum(s["labels"].ne(-100).sum() for s in samples)
        items = accelerator.gather(items).sum().item()
        for i, sample in enumerate(samples):
            with accelerator.accumulate(model):
                logits = model(sample["input_ids"])
                loss = torch.nn.functional.cross_entropy(
                    logits.flatten(0, 1), sample["labels"].flatten(), ignore_index=-100, reduction="sum"
                )
                loss = loss * accum * accelerator.num_processes / items
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
