# mechanism: an update function sums the mean losses of its chunks
import torch


def make_update(model, optimizer, chunks):
    def update(engine, batch):
        model.train()
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(batch[0].chunk(chunks), batch[1].chunk(chunks)):
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()  # expect: ACC103
            total += loss.item()
        optimizer.step()
        return total / chunks

    return update
