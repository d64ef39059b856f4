# mechanism: a Dice loss over the whole microbatch is a ratio of sums
import torch


def dice_loss(logits, target, eps=1.0):
    p = torch.sigmoid(logits)
    inter = (p * target).sum()
    return 1 - (2 * inter + eps) / (p.sum() + target.sum() + eps)


def train(net, images, masks, opt, accum, updates):
    for _ in range(updates):
        for _ in range(accum):
            rows = torch.randint(0, len(images), (4,))
            loss = dice_loss(net(images[rows]), masks[rows])
            (loss / accum).backward()  # expect-optin: ACC402
        opt.step()
        opt.zero_grad()
