# mechanism: the classic order zero, forward, backward, with only the step put behind the boundary
import torch
import torch.nn.functional as F


def train(model, memory, optimizer, args):
    for step in range(args.total):
        batch = memory[torch.randint(len(memory), (args.batch,))]
        optimizer.zero_grad()  # expect: ACC302
        out = model(batch)
        loss = F.mse_loss(out, batch)
        loss = loss / args.accumulate
        loss.backward()
        if (step + 1) % args.accumulate == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
