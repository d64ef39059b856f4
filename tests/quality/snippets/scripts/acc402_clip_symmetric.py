# mechanism: CLIP's symmetric loss compares every image with every caption of the microbatch
import torch
import torch.nn.functional as F


def clip_loss(image, text, scale):
    image, text = F.normalize(image, dim=-1), F.normalize(text, dim=-1)
    logits = scale * image @ text.T
    target = torch.arange(len(image), device=image.device)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def train(model, pairs, optimizer, accum, updates, batch=32):
    for _ in range(updates):
        for _ in range(accum):
            image, text = pairs.draw(batch)
            loss = clip_loss(model.image(image), model.text(text), model.scale.exp())
            (loss / accum).backward()  # expect-optin: ACC402
        optimizer.step()
        optimizer.zero_grad()
