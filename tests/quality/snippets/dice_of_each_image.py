# mechanism: Dice of each image, then the mean over images: the mask weighs pixels, the divisor is the number of images
# expect: nothing
import torch


def dice_per_image(probability, mask):
    overlap = (probability * mask).flatten(1).sum(1)
    size = probability.flatten(1).sum(1) + mask.flatten(1).sum(1)
    return (1 - 2 * overlap / (size + 1)).mean()


def train(net, images, masks, optimizer, updates, accum=4):
    for i in range(updates * accum):
        pick = torch.randint(len(images), (8,))
        loss = dice_per_image(net(images[pick]).sigmoid(), masks[pick]) / accum
        loss.backward()
        if (i + 1) % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
