"""What must stay silent: one loop for each bullet of the list that the rules keep."""

from __future__ import annotations

import textwrap

import pytest
from test_clauses import violations

IMPORTS = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

"""
SETUP = """\
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=8, shuffle=True)
"""
ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=4)
net, opt, loader, schedule = accelerator.prepare(net, opt, loader, torch.optim.lr_scheduler.StepLR(opt, 10))
"""
WINDOWS = """
it = iter(loader)
for step in range(10):
    window = [next(it) for _ in range(4)]
    total = sum((y != -100).sum() for _, y in window)
"""
SILENT = {
    "two tasks, each with data and a loss of its own": (
        "",
        """
        for (xa, ya), (xb, yb) in zip(loader, DataLoader(more, batch_size=8)):
            opt.zero_grad()
            F.cross_entropy(net(xa), ya).backward()
            F.mse_loss(net(xb), yb).backward()
            opt.step()
        """,
    ),
    "prepared objects of accelerate without a guard": (
        ACCELERATE,
        """
        for x, y in loader:
            with accelerator.accumulate(net):
                loss = F.cross_entropy(net(x), y, reduction="sum") / 100
                accelerator.backward(loss)
                opt.step()
                schedule.step()
                opt.zero_grad()
        """,
    ),
    "a DeepSpeed engine steps on every microbatch": (
        """
        import deepspeed
        engine, _, _, _ = deepspeed.initialize(model=net, config={"gradient_accumulation_steps": 4})
        loader = DataLoader(data, batch_size=8, drop_last=True)
        """,
        """
        for x, y in loader:
            loss = F.cross_entropy(engine(x), y)
            engine.backward(loss)
            engine.step()
        """,
    ),
    "the ranks times the loss over the global count": (
        "import torch.distributed as dist\nnet = nn.parallel.DistributedDataParallel(net)\n" + WINDOWS,
        """
            dist.all_reduce(total)
            for x, y in window:
                loss = F.cross_entropy(net(x), y, ignore_index=-100, reduction="sum")
                (loss * dist.get_world_size() / total).backward()
            opt.step()
            opt.zero_grad()
        """,
    ),
    "the division of FSDP is switched off": (
        "import torch.distributed as dist\nfrom torch.distributed.fsdp import fully_shard\n"
        "fully_shard(net)\nnet.set_gradient_divide_factor(1.0)\n" + WINDOWS,
        """
            dist.all_reduce(total)
            for x, y in window:
                (F.cross_entropy(net(x), y, ignore_index=-100, reduction="sum") / total).backward()
            opt.step()
            opt.zero_grad()
        """,
    ),
    "a sum that a helper divides": (
        """
        def normalise(parameters, count):
            for p in parameters:
                p.grad /= count
        total = 0
        """,
        """
        for i, (x, y) in enumerate(loader):
            F.cross_entropy(net(x), y, ignore_index=-100, reduction="sum").backward()
            total += (y != -100).sum().item()
            if (i + 1) % 4 == 0 or i + 1 == len(loader):
                normalise(net.parameters(), total)
                opt.step()
                opt.zero_grad()
                total = 0
        """,
    ),
    "torchtune scales the gradients": (
        "from torchtune import training\ntotal = 0\n",
        """
        for i, (x, y) in enumerate(loader):
            count = (y != -100).sum()
            total += count
            (F.cross_entropy(net(x), y, ignore_index=-100) * count).backward()
            if (i + 1) % 4 == 0 or i + 1 == len(loader):
                training.scale_grads(net, 1 / total)
                opt.step()
                opt.zero_grad()
                total = 0
        """,
    ),
    "fixed-shape microbatches": (
        "def get_batch():\n    rows = torch.randint(100, (8,))\n    return data[rows], data[rows + 1]\n",
        """
        for step in range(100):
            for micro in range(4):
                x, y = get_batch()
                (F.cross_entropy(net(x), y) / 4).backward()
            opt.step()
            opt.zero_grad()
        """,
    ),
    "one target for each example and no short batch": (
        "loader = DataLoader(data, batch_size=8, drop_last=True)\nseen = 0\n",
        """
        while seen < args.updates:
            for x, y in loader:
                (F.cross_entropy(net(x), y) / 4).backward()
                seen += 1
                if seen % 4 == 0:
                    opt.step()
                    opt.zero_grad()
        """,
    ),
    "two optimizers": (
        "critic = nn.Linear(2, 1)\nopt_d = torch.optim.SGD(critic.parameters(), lr=0.1)\n",
        """
        for x, real in loader:
            opt_d.zero_grad()
            fake = net(x)
            loss_real = F.binary_cross_entropy_with_logits(critic(real), torch.ones(8, 1))
            loss_fake = F.binary_cross_entropy_with_logits(critic(fake.detach()), torch.zeros(8, 1))
            loss_real.backward()
            loss_fake.backward()
            opt_d.step()
            opt.zero_grad()
            F.binary_cross_entropy_with_logits(critic(fake), torch.ones(8, 1)).backward()
            opt.step()
        """,
    ),
    "an adversarial inner loop": (
        "",
        """
        for x, y in loader:
            delta = torch.zeros_like(x, requires_grad=True)
            for _ in range(7):
                F.cross_entropy(net(x + delta), y).backward()
                delta.data = (delta + 0.01 * delta.grad.sign()).clamp(-0.1, 0.1)
                delta.grad.zero_()
            opt.zero_grad()
            F.cross_entropy(net(x + delta.detach()), y).backward()
            opt.step()
        """,
    ),
    "MAML": (
        "",
        """
        for tasks in loader:
            opt.zero_grad()
            outer = []
            for support, query in tasks:
                fast = dict(net.named_parameters())
                loss = F.mse_loss(torch.func.functional_call(net, fast, support[0]), support[1])
                grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
                fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), grads)}
                outer.append(F.mse_loss(torch.func.functional_call(net, fast, query[0]), query[1]))
            torch.stack(outer).mean().backward()
            opt.step()
        """,
    ),
    "Reptile": (
        "import copy\n",
        """
        for task in loader:
            fast = copy.deepcopy(net)
            inner = torch.optim.SGD(fast.parameters(), lr=0.1)
            for x, y in task:
                inner.zero_grad()
                F.mse_loss(fast(x), y).backward()
                inner.step()
            for p, q in zip(net.parameters(), fast.parameters()):
                p.data += 0.1 * (q.data - p.data)
        """,
    ),
    "the two passes of SAM": (
        "from sam import SAM\nopt = SAM(net.parameters(), torch.optim.SGD, lr=0.1)\n",
        """
        for x, y in loader:
            F.cross_entropy(net(x), y).backward()
            opt.first_step(zero_grad=True)
            F.cross_entropy(net(x), y).backward()
            opt.second_step(zero_grad=True)
        """,
    ),
    "LBFGS": (
        "opt = torch.optim.LBFGS(net.parameters())\n",
        """
        for x, y in loader:
            def closure():
                opt.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                return loss
            opt.step(closure)
        """,
    ),
    "truncated backpropagation through time": (
        "hidden = None\n",
        """
        for chunk in loader:
            if hidden is not None:
                hidden = hidden.detach()
            out, hidden = net(chunk[0], hidden)
            opt.zero_grad()
            F.cross_entropy(out, chunk[1]).backward()
            opt.step()
        """,
    ),
    "two losses with a backward each": (
        "",
        """
        for x, y, z in loader:
            shared = net(x)
            opt.zero_grad()
            F.cross_entropy(shared, y).backward(retain_graph=True)
            F.mse_loss(shared, z).backward()
            opt.step()
        """,
    ),
    "gradient checkpointing": (
        "from torch.utils.checkpoint import checkpoint\n",
        """
        for x, y in loader:
            loss = F.cross_entropy(checkpoint(net, x, use_reentrant=False), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
    ),
    "an evaluation loop": (
        "",
        """
        for x, y in loader:
            F.cross_entropy(net(x), y).backward()
            opt.step()
            opt.zero_grad()
        net.eval()
        total = 0.0
        with torch.no_grad():
            for x, y in loader:
                total += F.cross_entropy(net(x), y).item() / 4
        """,
    ),
    "the epochs of PPO": (
        "",
        """
        for rollout in rollouts:
            for epoch in range(4):
                order = torch.randperm(64)
                for start in range(0, 64, 16):
                    rows = order[start:start + 16]
                    ratio = (net(rollout.x[rows]) - rollout.old[rows]).exp()
                    gain = rollout.advantage[rows]
                    loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
                    opt.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                    opt.step()
        """,
    ),
    "cleared by p.grad = None at the boundary": (
        "loader = DataLoader(data, batch_size=8, drop_last=True)\nseen = 0\n",
        """
        while True:
            for x, y in loader:
                (F.cross_entropy(net(x), y) / 4).backward()
                seen += 1
                if seen % 4 == 0:
                    opt.step()
                    for p in net.parameters():
                        p.grad = None
        """,
    ),
}


def source_of(more: str, loop: str) -> str:
    more, loop = textwrap.dedent(more), textwrap.dedent(loop)
    if more.endswith("in window)\n"):  # the loop goes on inside
        loop = textwrap.indent(loop, "    ")
    return IMPORTS + "def train(data, args, rollouts):\n" + textwrap.indent(SETUP + more + loop, "    ")


@pytest.mark.parametrize(("more", "loop"), SILENT.values(), ids=SILENT)
def test_stays_silent(more: str, loop: str) -> None:
    opt_in = ("BATCH_NORM", "BATCH_COUPLED", "LOGGED_SCALE", "UNPROVEN_WEIGHT")
    source = source_of(more, loop)
    compile(source, "snippet", "exec")
    assert [v.clause.name for v in violations(source) if v.clause.name not in opt_in] == []
