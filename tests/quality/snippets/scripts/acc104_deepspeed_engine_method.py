# mechanism: engine.backward divides by gradient_accumulation_steps, the loop does it before
import deepspeed
import torch
import torch.nn.functional as F

DS_CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 8,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
}


def train(model, tokens, steps, block=128):
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=DS_CONFIG)
    for _ in range(steps):
        starts = torch.randint(0, len(tokens) - block - 1, (4,)).tolist()
        rows = torch.stack([tokens[s : s + block + 1] for s in starts]).to(engine.device)
        logits = engine(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        loss = loss / engine.gradient_accumulation_steps()  # expect: ACC104
        engine.backward(loss)
        engine.step()
