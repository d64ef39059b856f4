# mechanism: only the inputs are padded, by a collate from elsewhere; both branches' losses have one label a row
import torch
from torch import nn
from torch.utils.data import DataLoader

from project.data import collate_fn


class Classifier:
    def __init__(self, model, args):
        self.model, self.args = model, args
        self.criterion = nn.BCEWithLogitsLoss() if args.multi_label else nn.CrossEntropyLoss()

    def train(self, data):
        args = self.args
        loader = DataLoader(data, batch_size=args.batch_size, collate_fn=collate_fn)
        optimizer = torch.optim.AdamW(self.model.parameters())
        scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)
        for _ in range(args.epochs):
            for step, batch in enumerate(loader):
                labels = batch[5]
                if args.fp16:
                    with torch.autocast("cuda"):
                        loss = self.model(words=batch[0], mask=batch[1], image=batch[2])[0]
                else:
                    loss = self.criterion(self.model(words=batch[0], mask=batch[1])[0], labels)
                if args.steps > 1:
                    loss = loss / args.steps
                scaler.scale(loss).backward()  # expect: ACC102
                if (step + 1) % args.steps == 0:  # expect: ACC304
                    scaler.step(optimizer)
                    scaler.update()
                    self.model.zero_grad()
