# mechanism: one call runs backward, clip and step; whether it steps is told by an argument (MAE, timm)
import torch.nn.functional as F
from timm.utils import NativeScaler


def train(model, optimizer, loader, args):
    scale = NativeScaler()
    for index, (inputs, labels) in enumerate(loader):
        loss = F.cross_entropy(model(inputs), labels, ignore_index=-1) / args.steps
        steps = (index + 1) % args.steps == 0
        scale(loss, optimizer, parameters=model.parameters(), need_update=steps)  # expect: ACC101, ACC304
        if steps:
            optimizer.zero_grad()


def train_right(model, optimizer, loader, args):
    scale = NativeScaler()
    for inputs, labels in loader:
        loss = F.cross_entropy(model(inputs), labels, ignore_index=-1)
        scale(loss, optimizer, parameters=model.parameters())
        optimizer.zero_grad()
