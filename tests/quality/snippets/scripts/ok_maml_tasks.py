# expect: nothing
# mechanism: meta-batch of tasks, one backward a task, equal tasks by construction
import torch
import torch.nn.functional as F


def meta_step(net, meta_opt, tasks, inner_lr=0.01):
    meta_opt.zero_grad()
    for support, query in tasks:
        params = dict(net.named_parameters())
        xs, ys = support
        loss = F.mse_loss(torch.func.functional_call(net, params, (xs,)), ys)
        grads = torch.autograd.grad(loss, params.values(), create_graph=True)
        fast = {k: p - inner_lr * g for (k, p), g in zip(params.items(), grads)}
        xq, yq = query
        outer = F.mse_loss(torch.func.functional_call(net, fast, (xq,)), yq)
        (outer / len(tasks)).backward()
    meta_opt.step()
