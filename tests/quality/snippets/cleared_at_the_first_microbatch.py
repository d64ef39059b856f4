# mechanism: gradients are cleared before the first microbatch of a window
import torch.nn.functional as F


def train(model, get_batch, opt, accum=4):  # expect: nothing
    for it in range(1000 * 4):
        if it % accum == 0:
            opt.zero_grad()
        x, y = get_batch()
        (F.mse_loss(model(x), y) / accum).backward()
        if it % accum == accum - 1:
            opt.step()
