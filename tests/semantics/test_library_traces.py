"""What libraries do to a loop: scalers, wrapped models, engines, trainers; each with its trace."""

from __future__ import annotations

import textwrap

import pytest
from loop_snippets import inside, lightning, printed, without_optimizer

TRACES = {
    "GradScaler": (
        inside,
        """
        scaler = torch.amp.GradScaler("cuda")
        for i, (x, y) in enumerate(loader):
            with torch.autocast("cuda"):
                loss = F.cross_entropy(net(x), y) / 2
            scaler.scale(loss).backward()
            if (i + 1) % 2 == 0:
                scaler.unscale_(opt)
                torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                scaler.step(opt)
                scaler.update()
                opt.zero_grad()
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2 scaled: 1/2*mean1[1] + 1/2*mean1[2]
        unscale SGD k2 scaled
        clip SGD k2 norm
        step SGD k2
        update SGD k2 GradScaler
        clear SGD k2
        backward SGD k3-k4 scaled: 1/2*mean1[3] + 1/2*mean1[4]
        unscale SGD k4 scaled
        clip SGD k4 norm
        step SGD k4
        update SGD k4 GradScaler
        clear SGD k4
        backward SGD k5 scaled: 1/2*mean1[5]
        """,
    ),
    "DDP no_sync": (
        inside,
        """
        from contextlib import nullcontext
        from torch.nn.parallel import DistributedDataParallel as DDP
        ddp = DDP(net)
        for i, (x, y) in enumerate(loader):
            last = (i + 1) % 2 == 0
            with nullcontext() if last else ddp.no_sync():
                (F.cross_entropy(ddp(x), y) / 2).backward()
            if last:
                opt.step()
                opt.zero_grad()
        """,
        """
        region train
        steps 2 2
        sync - k0 off: 0
        backward SGD k1 nosync: 1/2*mean1[1]
        sync - k1 on
        backward SGD k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        sync - k2 off
        backward SGD k3 nosync: 1/2*mean1[3]
        sync - k3 on
        backward SGD k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        clear SGD k4
        sync - k4 off
        backward SGD k5 nosync: 1/2*mean1[5]
        sync - k5 on
        """,
    ),
    "Accelerate gates": (
        inside,
        """
        from accelerate import Accelerator
        accelerator = Accelerator(gradient_accumulation_steps=2)
        net, opt, loader = accelerator.prepare(net, opt, loader)
        for x, y in loader:
            with accelerator.accumulate(net):
                loss = F.cross_entropy(net(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(net.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
        """,
        """
        region train
        steps 2 2
        sync - k0 off: 0
        backward SGD k1 nosync: 1/2*mean1[1]
        sync - k1 on
        sync - k1 on
        backward SGD k2: 1/2*mean1[1] + 1/2*mean1[2]
        clip SGD k2 norm
        step SGD k2
        clear SGD k2
        sync - k2 on
        sync - k2 off
        backward SGD k3 nosync: 1/2*mean1[3]
        sync - k3 on
        sync - k3 on
        backward SGD k4: 1/2*mean1[3] + 1/2*mean1[4]
        clip SGD k4 norm
        step SGD k4
        clear SGD k4
        sync - k4 on
        sync - k4 on
        backward SGD k5: 1/2*mean1[5]
        clip SGD k5 norm
        step SGD k5
        clear SGD k5
        sync - k5 on
        """,
    ),
    "a DeepSpeed engine": (
        without_optimizer,
        """
        import deepspeed
        engine, _, _, _ = deepspeed.initialize(model=net, config={"gradient_accumulation_steps": 2})
        for x, y in loader:
            loss = F.cross_entropy(engine(x), y)
            engine.backward(loss)
            engine.step()
        """,
        """
        region train
        steps 2 2
        backward Linear(4, 2) k1: 1/2*mean1[1]
        backward Linear(4, 2) k2: 1/2*mean1[1] + 1/2*mean1[2]
        step     Linear(4, 2) k2: 1/2*mean1[1] + 1/2*mean1[2]
        clear    Linear(4, 2) k2: 1/2*mean1[1] + 1/2*mean1[2]
        backward Linear(4, 2) k3: 1/2*mean1[3]
        backward Linear(4, 2) k4: 1/2*mean1[3] + 1/2*mean1[4]
        step     Linear(4, 2) k4: 1/2*mean1[3] + 1/2*mean1[4]
        clear    Linear(4, 2) k4: 1/2*mean1[3] + 1/2*mean1[4]
        backward Linear(4, 2) k5: 1/2*mean1[5]
        """,
    ),
    "Fabric": (
        inside,
        """
        from lightning.fabric import Fabric
        fabric = Fabric()
        net, opt = fabric.setup(net, opt)
        loader = fabric.setup_dataloaders(loader)
        for i, (x, y) in enumerate(loader):
            last = (i + 1) % 2 == 0
            with fabric.no_backward_sync(net, enabled=not last):
                fabric.backward(F.cross_entropy(net(x), y) / 2)
            if last:
                fabric.clip_gradients(net, opt, max_norm=1.0)
                opt.step()
                opt.zero_grad()
        """,
        """
        region train
        steps 2 2
        sync - k0 off: 0
        backward SGD k1 nosync: 1/2*mean1[1]
        sync - k1 on
        sync - k1 on
        backward SGD k2: 1/2*mean1[1] + 1/2*mean1[2]
        sync - k2 on
        clip SGD k2 norm
        step SGD k2
        clear SGD k2
        sync - k2 off
        backward SGD k3 nosync: 1/2*mean1[3]
        sync - k3 on
        sync - k3 on
        backward SGD k4: 1/2*mean1[3] + 1/2*mean1[4]
        sync - k4 on
        clip SGD k4 norm
        step SGD k4
        clear SGD k4
        sync - k4 off
        backward SGD k5 nosync: 1/2*mean1[5]
        sync - k5 on
        """,
    ),
    "Lightning, automatic": (
        lightning,
        """
        import lightning as L

        class Lit(L.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Linear(4, 2)

            def training_step(self, batch, batch_idx):
                x, y = batch
                return F.cross_entropy(self.net(x), y)

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        L.Trainer(accumulate_grad_batches=2).fit(Lit(), loader)
        """,
        """
        region Lit.training_step
        steps 3 accumulate_grad_batches
        backward Lit k1-k3: 1/3*mean1[1] + 1/3*mean1[2] + 1/3*mean1[3]
        step Lit k3
        clear Lit k3
        backward Lit k4-k6: 1/3*mean1[4] + 1/3*mean1[5] + 1/3*mean1[6]
        step Lit k6
        clear Lit k6
        backward Lit k7-k8: 1/3*mean1[7] + 1/3*mean1[8]
        step Lit k8
        clear Lit k8
        """,
    ),
    "Lightning, manual": (
        lightning,
        """
        import lightning as L

        class Lit(L.LightningModule):
            def __init__(self):
                super().__init__()
                self.automatic_optimization = False
                self.net = torch.nn.Linear(4, 2)

            def training_step(self, batch, batch_idx):
                opt = self.optimizers()
                x, y = batch
                self.manual_backward(F.cross_entropy(self.net(x), y) / 2)
                if (batch_idx + 1) % 2 == 0:
                    opt.step()
                    opt.zero_grad()
        """,
        """
        region Lit.training_step
        steps 2 2
        backward LightningOptimizer@Lit k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step LightningOptimizer@Lit k2
        clear LightningOptimizer@Lit k2
        backward LightningOptimizer@Lit k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step LightningOptimizer@Lit k4
        clear LightningOptimizer@Lit k4
        backward LightningOptimizer@Lit k5-k7: 1/2*mean1[5] + 1/2*mean1[6] + 1/2*mean1[7]
        step LightningOptimizer@Lit k7
        clear LightningOptimizer@Lit k7
        backward LightningOptimizer@Lit k8-k9: 1/2*mean1[8] + 1/2*mean1[9]
        step LightningOptimizer@Lit k9
        clear LightningOptimizer@Lit k9
        backward LightningOptimizer@Lit k10: 1/2*mean1[10]
        """,
    ),
    "random data that are drawn like a batch": (
        inside,
        """
        total = 0
        for i, (x, y) in enumerate(loader):
            noise = torch.randn_like(x)
            total += noise.numel()
            F.mse_loss(net(x + noise), noise, reduction="sum").backward()
            if (i + 1) % 2 == 0:
                for p in net.parameters():
                    p.grad.div_(total)
                opt.step()
                opt.zero_grad()
                total = 0
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: 1*sum1[1] + 1*sum1[2]
        scale SGD k2 /: (1/7, 1/60, 1/19, ?)*sum1[1] + (1/7, 1/60, 1/19, ?)*sum1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1*sum1[3] + 1*sum1[4]
        scale SGD k4 /: (1/10, 1/36, 1/38, 1/14)*sum1[3] + (1/10, 1/36, 1/38, 1/14)*sum1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: 1*sum1[5]
        """,
    ),
    "torchtune's number of ranks": (
        inside,
        """
        from torchtune import utils
        ranks, rank = utils.get_world_size_and_rank()
        for i, (x, y) in enumerate(loader):
            (F.cross_entropy(net(x), y) * ranks / 2).backward()
            if (i + 1) % 2 == 0:
                opt.step()
                opt.zero_grad()
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: 5/2*mean1[1] + 5/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 5/2*mean1[3] + 5/2*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: 5/2*mean1[5]
        """,
    ),
    "torchtune's scale_grads": (
        inside,
        """
        from torchtune import training
        total = 0
        for i, (x, y) in enumerate(loader):
            count = (y != -100).sum()
            total += count
            (F.cross_entropy(net(x), y) * count).backward()
            if (i + 1) % 2 == 0:
                training.scale_grads(net, 1 / total)
                opt.step()
                opt.zero_grad()
                total = 0
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: (2, 18, 19, 0)*mean1[1] + (5, 42, 0, 0)*mean1[2]
        scale SGD k2 *: (2/7, 3/10, 1, ?)*mean1[1] + (5/7, 7/10, 0, ?)*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: (3, 24, 25, 0)*mean1[3] + (7, 12, 13, 14)*mean1[4]
        scale SGD k4 *: (3/10, 2/3, 25/38, 0)*mean1[3] + (7/10, 1/3, 13/38, 1)*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: (4, 38, 39, 40)*mean1[5]
        """,
    ),
    "an all-reduced count": (
        inside,
        """
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel as DDP
        ddp = DDP(net)
        it = iter(loader)
        for step in range(2):
            window = [next(it) for _ in range(2)]
            total = sum((y != -100).sum() for _, y in window)
            dist.all_reduce(total)
            for x, y in window:
                loss = F.cross_entropy(ddp(x), y, ignore_index=-100, reduction="sum")
                (loss * dist.get_world_size() / total).backward()
            opt.step()
            opt.zero_grad()
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: (1/7, 1/60, 1/19, ?)*sum1[1] + (1/7, 1/60, 1/19, ?)*sum1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: (1/10, 1/36, 1/38, 1/14)*sum1[3] + (1/10, 1/36, 1/38, 1/14)*sum1[4]
        step SGD k4
        clear SGD k4
        """,
    ),
    "a scheduler": (
        inside,
        """
        schedule = torch.optim.lr_scheduler.StepLR(opt, 10)
        for i, (x, y) in enumerate(loader):
            (F.cross_entropy(net(x), y) / 2).backward()
            if (i + 1) % 2 == 0:
                opt.step()
                schedule.step()
                opt.zero_grad()
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        advance SGD k2 StepLR
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        advance SGD k4 StepLR
        clear SGD k4
        backward SGD k5: 1/2*mean1[5]
        """,
    ),
    "fairseq's multiply_grads": (
        without_optimizer,
        """
        from fairseq.optim import FairseqOptimizer
        optimizer = FairseqOptimizer(net.parameters())
        total = 0
        for i, (x, y) in enumerate(loader):
            optimizer.backward(F.cross_entropy(net(x), y, reduction="sum"))
            total += (y != -100).sum()
            if (i + 1) % 2 == 0:
                optimizer.multiply_grads(1 / total)
                optimizer.step()
                optimizer.zero_grad()
                total = 0
        """,
        """
        region train
        steps 2 2
        backward fairseq.optim.FairseqOptimizer k1-k2: 1*sum1[1] + 1*sum1[2]
        scale fairseq.optim.FairseqOptimizer k2 *: (1/7, 1/60, 1/19, ?)*sum1[1] + (1/7, 1/60, 1/19, ?)*sum1[2]
        step fairseq.optim.FairseqOptimizer k2
        clear fairseq.optim.FairseqOptimizer k2
        backward fairseq.optim.FairseqOptimizer k3-k4: 1*sum1[3] + 1*sum1[4]
        scale fairseq.optim.FairseqOptimizer k4 *: (1/10, 1/36, 1/38, 1/14)*sum1[3] + (1/10, 1/36, 1/38, 1/14)*sum1[4]
        step fairseq.optim.FairseqOptimizer k4
        clear fairseq.optim.FairseqOptimizer k4
        backward fairseq.optim.FairseqOptimizer k5: 1*sum1[5]
        """,
    ),
    "two optimizers": (
        inside,
        """
        other = torch.nn.Linear(4, 1)
        opt_d = torch.optim.SGD(other.parameters(), lr=0.1)
        for x, y in loader:
            opt_d.zero_grad()
            F.binary_cross_entropy_with_logits(other(x), y).backward()
            opt_d.step()
            opt.zero_grad()
            F.binary_cross_entropy_with_logits(other(net(x)), y).backward()
            opt.step()
        """,
        """
        region train
        clear SGD k0: 0
        backward SGD k1: 1*mean1[1]
        step SGD k1
        clear SGD#2 k1: 0
        backward SGD#2 k1: 1*mean2[1]
        backward SGD k1: 1*mean1[1] + 1*mean2[1]
        step SGD#2 k1
        clear SGD k1
        backward SGD k2: 1*mean1[2]
        step SGD k2
        clear SGD#2 k2
        backward SGD#2 k2: 1*mean2[2]
        backward SGD k2: 1*mean1[2] + 1*mean2[2]
        step SGD#2 k2
        clear SGD k2
        backward SGD k3: 1*mean1[3]
        step SGD k3
        clear SGD#2 k3
        backward SGD#2 k3: 1*mean2[3]
        backward SGD k3: 1*mean1[3] + 1*mean2[3]
        step SGD#2 k3
        clear SGD k3
        backward SGD k4: 1*mean1[4]
        step SGD k4
        clear SGD#2 k4
        backward SGD#2 k4: 1*mean2[4]
        backward SGD k4: 1*mean1[4] + 1*mean2[4]
        step SGD#2 k4
        clear SGD k4
        backward SGD k5: 1*mean1[5]
        step SGD k5
        clear SGD#2 k5
        backward SGD#2 k5: 1*mean2[5]
        backward SGD k5: 1*mean1[5] + 1*mean2[5]
        step SGD#2 k5
        clear SGD k5
        backward SGD k6: 1*mean1[6]
        step SGD k6
        clear SGD#2 k6
        backward SGD#2 k6: 1*mean2[6]
        backward SGD k6: 1*mean1[6] + 1*mean2[6]
        step SGD#2 k6
        clear SGD k6
        backward SGD k7: 1*mean1[7]
        step SGD k7
        clear SGD#2 k7
        backward SGD#2 k7: 1*mean2[7]
        backward SGD k7: 1*mean1[7] + 1*mean2[7]
        step SGD#2 k7
        clear SGD k7
        backward SGD k8: 1*mean1[8]
        step SGD k8
        clear SGD#2 k8
        backward SGD#2 k8: 1*mean2[8]
        backward SGD k8: 1*mean1[8] + 1*mean2[8]
        step SGD#2 k8
        """,
    ),
    "LBFGS": (
        without_optimizer,
        """
        opt = torch.optim.LBFGS(net.parameters())
        for x, y in loader:
            def closure():
                opt.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                return loss
            opt.step(closure)
        """,
        """
        region train
        clear LBFGS k0: 0
        backward LBFGS k1: 1*mean1[1]
        step LBFGS k1
        clear LBFGS k1
        backward LBFGS k2: 1*mean1[2]
        step LBFGS k2
        clear LBFGS k2
        backward LBFGS k3: 1*mean1[3]
        step LBFGS k3
        clear LBFGS k3
        backward LBFGS k4: 1*mean1[4]
        step LBFGS k4
        clear LBFGS k4
        backward LBFGS k5: 1*mean1[5]
        step LBFGS k5
        clear LBFGS k5
        backward LBFGS k6: 1*mean1[6]
        step LBFGS k6
        clear LBFGS k6
        backward LBFGS k7: 1*mean1[7]
        step LBFGS k7
        clear LBFGS k7
        backward LBFGS k8: 1*mean1[8]
        step LBFGS k8
        exempt the optimizer calls a closure
        """,
    ),
}


@pytest.mark.parametrize(("wrap", "body", "expected"), TRACES.values(), ids=TRACES)
def test_the_trace_is_the_reviewed_one(wrap, body: str, expected: str) -> None:  # type: ignore[no-untyped-def]
    assert printed(wrap(body)) == textwrap.dedent(expected).strip()
