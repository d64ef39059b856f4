# mechanism: fairseq's `multiply_grads` by the steps keeps each mean's weight, by the sample size it does not
from fairseq.optim.adam import FairseqAdam
from torch.nn import functional as F


def by_steps(model, samples, args, accum):
    optimizer = FairseqAdam(args, model.parameters())
    optimizer.zero_grad()
    for i, sample in enumerate(samples):
        loss = F.cross_entropy(model(**sample["net_input"]), sample["target"], ignore_index=1)
        optimizer.backward(loss)  # expect: ACC101
        if (i + 1) % accum == 0:  # expect: ACC304
            optimizer.multiply_grads(1.0 / accum)
            optimizer.step()
            optimizer.zero_grad()
