# mechanism: one sequence in parts, the state handed on: the parts add up to one objective
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(rnn, data, opt, bptt=35):  # expect: nothing
    loader = DataLoader(data, batch_size=8)
    for seq, target in loader:
        h = None
        opt.zero_grad()
        for t in range(0, seq.size(1), bptt):
            out, h = rnn(seq[:, t : t + bptt], h)
            h = tuple(s.detach() for s in h)
            loss = F.cross_entropy(out.flatten(0, 1), target[:, t : t + bptt].flatten())
            loss.backward()
        opt.step()
