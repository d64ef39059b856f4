# mechanism: torchvision's ResNet has BatchNorm, and it is in train mode
import torch
import torchvision
from torch.utils.data import DataLoader


def main(dataset, accum=8, epochs=1):
    model = torchvision.models.resnet18(num_classes=10)
    loader = DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True)
    ce = torch.nn.CrossEntropyLoss()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    whole = len(loader) // accum * accum
    for _ in range(epochs):
        model.train()
        for i, (x, y) in enumerate(loader):
            if i >= whole:
                break
            loss = ce(model(x), y) / accum
            loss.backward()  # expect-optin: ACC401
            if (i + 1) % accum == 0:
                opt.step()
                opt.zero_grad()
