# mechanism: a guess about the configuration that ends in an exception is not kept, and a progress bar of one's own
# goes round counted batches: the loop behind both is read
import torch
from recipe import Bar, Wrapped
from torch.utils.data import DataLoader


class Distilled:
    def __init__(self, student, teacher, kind):
        if kind not in ("logits", "features"):
            raise ValueError(kind)
        if kind == "logits":
            raise ValueError("logits need a teacher of the same vocabulary")
        self.student, self.teacher = student, teacher


class Trainer:
    def __init__(self, args):
        self.args = args
        self.rank = -1

    def setup(self):
        self.model = Wrapped(self.args.model)
        if self.args.teacher is not None:
            self.model = Distilled(self.model, self.args.teacher, "logits")
            self.guided = True
        self.loader = DataLoader(self.args.data, batch_size=8)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.accumulate = max(round(self.args.nominal / self.args.batch), 1)

    def train(self):
        self.setup()
        last = -1
        bar = Bar(enumerate(self.loader), total=len(self.loader))
        for i, batch in bar:
            loss = self.model(batch).mean() / self.accumulate
            loss.backward()  # expect: ACC102
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)  # expect: ACC201
            if i - last >= self.accumulate:  # expect: ACC304
                self.optimizer.step()
                self.optimizer.zero_grad()
                last = i

    def train_right(self):
        self.setup()
        last = -1
        bar = Bar(enumerate(self.loader), total=len(self.loader))
        for i, batch in bar:
            self.model(batch).sum().backward()
            if i - last >= self.accumulate or i == len(self.loader) - 1:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad()
                last = i
