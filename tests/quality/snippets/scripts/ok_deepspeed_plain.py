# expect: nothing
# mechanism: the engine divides, clips, steps and clears; fixed blocks
import deepspeed
import torch
import torch.nn.functional as F


def train(args, model, tokens):
    engine, optimizer, _, scheduler = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
    for step in range(args.steps):
        starts = torch.randint(0, len(tokens) - args.block - 1, (args.batch,)).tolist()
        rows = torch.stack([tokens[s : s + args.block + 1] for s in starts]).to(engine.device)
        logits = engine(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        engine.backward(loss)
        engine.step()
        if engine.is_gradient_accumulation_boundary():
            print(step, loss.item())
