# expect: nothing
# mechanism: SAM: two backward passes an update, on perturbed and on restored weights
import torch
from torch import nn
from torch.utils.data import DataLoader

from sam import SAM


def train(model, dataset, epochs):
    loader = DataLoader(dataset, batch_size=128, shuffle=True)
    optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.first_step(zero_grad=True)
            criterion(model(x), y).backward()
            optimizer.second_step(zero_grad=True)
