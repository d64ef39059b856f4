# mechanism: class weights: the mean is over the weights of the targets present, drop_last does not make those equal
import torch
from torch.utils.data import DataLoader


def train(net, dataset, frequencies, device, epochs, micro_batch, steps):
    weights = (frequencies.sum() / frequencies).to(device)
    criterion = torch.nn.CrossEntropyLoss(weight=weights)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(dataset, micro_batch, shuffle=True, drop_last=True, num_workers=4)
    usable = len(loader) - len(loader) % steps
    for _ in range(epochs):
        for index, (image, label) in enumerate(loader):
            if index == usable:
                break
            loss = criterion(net(image.to(device)), label.to(device))
            loss.div(steps).backward()  # expect: ACC101
            if index % steps == steps - 1:
                optimizer.step()
                optimizer.zero_grad()
