# mechanism: a guess that leaves a loss unbound is not kept: Python would not get further either
import torch
from torch.cuda import amp
from torch.utils.data import DataLoader


class Classifier:
    def __init__(self, model, args):
        self.model = model
        self.args = {"fp16": True, "batch_size": 8, "gradient_accumulation_steps": 1, "silent": False}
        if args:
            self.args.update(args)

    def train(self, dataset, epochs):
        model, args = self.model, self.args
        loader = DataLoader(dataset, batch_size=args["batch_size"])
        optimizer = torch.optim.AdamW(model.parameters())
        if args["fp16"]:
            scaler = amp.GradScaler()
        for _ in range(epochs):
            for step, batch in enumerate(loader):
                if args["fp16"]:
                    with amp.autocast():
                        outputs = model(**batch)
                else:
                    outputs = model(**batch)
                    loss = outputs[0]
                if args["gradient_accumulation_steps"] > 1:
                    loss = loss / args["gradient_accumulation_steps"]
                if args["fp16"]:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()  # expect: ACC102
                if (step + 1) % args["gradient_accumulation_steps"] == 0:  # expect: ACC304
                    optimizer.step()
                    model.zero_grad()

    def train_right(self, dataset, args):
        model, steps = self.model, args.steps
        loader = DataLoader(dataset, batch_size=8, drop_last=True)
        optimizer = torch.optim.AdamW(model.parameters())
        for step, batch in enumerate(loader):
            if args.half:
                with amp.autocast():
                    loss = model(**batch)[0]
            else:
                outputs = model(**batch)
                loss = outputs[0]
            size = min(steps, len(loader) - step // steps * steps)
            (loss / size).backward()
            if (step + 1) % steps == 0 or step + 1 == len(loader):
                optimizer.step()
                model.zero_grad()
