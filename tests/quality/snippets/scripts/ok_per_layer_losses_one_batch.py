# expect: nothing
# mechanism: deep supervision: several losses of one batch are added and backpropagated together
import torch.nn.functional as F


def train(net, loader, opt, weights=(1.0, 0.4, 0.2)):
    for x, y in loader:
        outputs = net(x)
        loss = sum(w * F.cross_entropy(o, y) for w, o in zip(weights, outputs))
        opt.zero_grad()
        loss.backward()
        opt.step()
