# mechanism: in-batch negatives couple the rows of a batch: no weighting by size is right, so no ACC101/ACC102
import torch
from torch import nn
from torch.utils.data import DataLoader


class Retriever:
    def __init__(self, queries, contexts, args):
        self.queries, self.contexts, self.args = queries, contexts, args

    def score(self, batch):
        query, context = self.queries(batch["query"]), self.contexts(batch["context"])
        similarity = torch.matmul(query, context.t())
        logs = nn.functional.log_softmax(similarity, dim=-1)
        labels = torch.tensor([row for row in range(len(batch["query"]))])
        return nn.NLLLoss(reduction="mean")(logs, labels)

    def fit(self, data):
        loader = DataLoader(data, batch_size=self.args.batch_size)
        parameters = [*self.queries.parameters(), *self.contexts.parameters()]
        optimizer = torch.optim.AdamW(parameters)
        for _ in range(self.args.epochs):
            for step, batch in enumerate(loader):
                loss = self.score(batch)
                if self.args.steps > 1:
                    loss = loss / self.args.steps
                loss.backward()  # expect-optin: ACC402
                if (step + 1) % self.args.steps == 0:  # expect: ACC304
                    optimizer.step()
                    self.queries.zero_grad()
                    self.contexts.zero_grad()
