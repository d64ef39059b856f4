# expect: nothing
# mechanism: resuming skips batches; the loop itself steps on every batch
import torch
import torch.nn.functional as F


def train(model, loader, optimizer, scheduler, checkpoint=None, save_every=1000):
    start = 0
    if checkpoint is not None:
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["step"]
    for step, (x, y) in enumerate(loader):
        if step < start:
            continue
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if (step + 1) % save_every == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, "last.pt")
