# expect: nothing
# mechanism: truncated backpropagation: a step for every chunk, the hidden state is detached
from torch import nn


def train(rnn, head, data, optimizer, bptt=35, epochs=3):
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        hidden = None
        for start in range(0, data.size(0) - 1, bptt):
            length = min(bptt, data.size(0) - 1 - start)
            x, y = data[start : start + length], data[start + 1 : start + 1 + length]
            out, hidden = rnn(x, hidden)
            hidden = tuple(h.detach() for h in hidden)
            loss = criterion(head(out).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(rnn.parameters(), 0.25)
            optimizer.step()
