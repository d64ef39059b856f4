# mechanism: the number of steps is 1 in a dict of defaults that the caller's own values overwrite
import torch
from torch.utils.data import DataLoader


class Model:
    def __init__(self, net, args=None):
        self.net = net
        self.args = {"steps": 1, "epochs": 1, "batch_size": 8}
        if args:
            self.args.update(args)

    def train(self, data):
        args = self.args
        loader = DataLoader(data, batch_size=args["batch_size"])
        optimizer = torch.optim.AdamW(self.net.parameters())
        for _ in range(args["epochs"]):
            for step, (x, y) in enumerate(loader):
                loss = torch.nn.functional.cross_entropy(self.net(x), y)
                if args["steps"] > 1:
                    loss = loss / args["steps"]
                loss.backward()  # expect: ACC102
                if (step + 1) % args["steps"] == 0:  # expect: ACC304
                    optimizer.step()
                    self.net.zero_grad()
