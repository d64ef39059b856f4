# mechanism: padded length times rows is not the number of valid targets, the mean stays one over the mask
import torch.nn.functional as F


def update(model, optimizer, window, max_norm=1.0):
    """`window` is a list of dicts of padded tensors."""
    steps = len(window)
    total = 0.0
    for micro in window:
        hidden = model(micro["audio"])
        frame = F.l1_loss(hidden, micro["mel"], reduction="none").mean(-1)
        keep = micro["frame_mask"]
        loss = frame.masked_select(keep).mean()
        total += float(loss)
        loss.mul(1.0 / steps).backward()  # expect: ACC101
    optimizer.step()
    optimizer.zero_grad()
    return total / steps
