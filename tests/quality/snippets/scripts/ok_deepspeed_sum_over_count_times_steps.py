# expect: nothing
# mechanism: DeepSpeed divides by its steps and averages over ranks; the loss undoes both
import deepspeed
import torch.distributed as dist
import torch.nn.functional as F


def train(model, config, stream, updates):
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    steps = engine.gradient_accumulation_steps()
    for _ in range(updates):
        window = [next(stream) for _ in range(steps)]
        total = sum((labels != -100).sum() for _, labels in window).to(engine.device)
        dist.all_reduce(total)
        for ids, labels in window:
            logits = engine(ids.to(engine.device))
            loss = F.cross_entropy(logits.flatten(0, 1), labels.to(engine.device).flatten(), reduction="sum")
            engine.backward(loss * steps * dist.get_world_size() / total)
            engine.step()
