"""What the language does to a loop: aliases, classes, closures, containers, exceptions; each with its trace."""

from __future__ import annotations

import textwrap

import pytest
from loop_snippets import inside, printed, without_optimizer

TRACES = {
    "an alias of a method": (
        without_optimizer,
        """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.opt = torch.optim.SGD(net.parameters(), lr=0.1)
                self.update = self._step

            def _step(self):
                self.opt.step()
                self.opt.zero_grad()

            def fit(self, loader):
                for i, (x, y) in enumerate(loader):
                    (F.cross_entropy(self.net(x), y) / 2).backward()
                    if (i + 1) % 2 == 0:
                        self.update()

        Trainer(net).fit(loader)
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: 1/2*mean1[5]
        """,
    ),
    "functools.partial": (
        inside,
        """
        from functools import partial

        def backward(scale, loss):
            (loss / scale).backward()

        halved = partial(backward, 2)
        for i, (x, y) in enumerate(loader):
            halved(F.cross_entropy(net(x), y))
            if (i + 1) % 2 == 0:
                opt.step()
                opt.zero_grad()
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: 1/2*mean1[5]
        """,
    ),
    "inheritance, super and a property": (
        without_optimizer,
        """
        class Base:
            def __init__(self, net, every):
                self.net = net
                self.every = every
                self.opt = torch.optim.SGD(net.parameters(), lr=0.1)
                self.seen = 0

            @property
            def at_boundary(self):
                return self.seen % self.every == 0

            def after(self):
                self.opt.step()
                self.opt.zero_grad()

        class Clipped(Base):
            def after(self):
                torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                super().after()

            def one(self, x, y):
                (F.cross_entropy(self.net(x), y) / self.every).backward()
                self.seen += 1
                if self.at_boundary:
                    self.after()

        trainer = Clipped(net, 2)
        for x, y in loader:
            trainer.one(x, y)
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        clip SGD k2 norm
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        clip SGD k4 norm
        step SGD k4
        clear SGD k4
        backward SGD k5: 1/2*mean1[5]
        """,
    ),
    "a closure and nonlocal": (
        inside,
        """
        def make():
            seen = 0
            def one(x, y):
                nonlocal seen
                seen += 1
                (F.cross_entropy(net(x), y) / 2).backward()
                if seen == 2:
                    opt.step()
                    opt.zero_grad()
                    seen = 0
            return one

        one = make()
        for x, y in loader:
            one(x, y)
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: 1/2*mean1[5]
        """,
    ),
    "a dict that is changed": (
        inside,
        """
        state = {"pending": 0}
        for x, y in loader:
            (F.cross_entropy(net(x), y) / 2).backward()
            state["pending"] += 1
            if state["pending"] == 2:
                opt.step()
                opt.zero_grad()
                state["pending"] = 0
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: 1/2*mean1[5]
        """,
    ),
    "a list seen by two names": (
        inside,
        """
        held = []
        same = held
        for batch in loader:
            same.append(batch)
            if len(held) == 2:
                for x, y in held:
                    (F.cross_entropy(net(x), y) / 2).backward()
                opt.step()
                opt.zero_grad()
                same.clear()
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        clear SGD k4
        """,
    ),
    "try and except around the step": (
        inside,
        """
        for i, (x, y) in enumerate(loader):
            try:
                (F.cross_entropy(net(x), y) / 2).backward()
            except RuntimeError:
                continue
            if (i + 1) % 2 == 0:
                opt.step()
                opt.zero_grad()
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: 1/2*mean1[5]
        """,
    ),
    "a conditional expression as divisor": (
        inside,
        """
        n = len(loader)
        for i, (x, y) in enumerate(loader):
            left = n - n % 4
            size = 4 if i < left else n % 4
            (F.cross_entropy(net(x), y) / size).backward()
            if (i + 1) % 4 == 0 or i + 1 == n:
                opt.step()
                opt.zero_grad()
        """,
        """
        region train
        steps 4 4
        backward SGD k1-k4: 1/4*mean1[1] + 1/4*mean1[2] + 1/4*mean1[3] + 1/4*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5-k8: 1/4*mean1[5] + 1/4*mean1[6] + 1/4*mean1[7] + 1/4*mean1[8]
        step SGD k8
        clear SGD k8
        backward SGD k9-k10: 1/2*mean1[9] + 1/2*mean1[10]
        step SGD k10
        clear SGD k10
        """,
    ),
    "set_to_none by hand": (
        inside,
        """
        for i, (x, y) in enumerate(loader):
            (F.cross_entropy(net(x), y) / 2).backward()
            if (i + 1) % 2 == 0:
                opt.step()
                for p in net.parameters():
                    p.grad = None
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: 1/2*mean1[5]
        """,
    ),
    "a loss of two terms": (
        inside,
        """
        for x, y in loader:
            out = net(x)
            loss = F.cross_entropy(out, y) + 0.5 * F.mse_loss(out, y)
            loss.backward()
            opt.step()
            opt.zero_grad()
        """,
        """
        region train
        backward SGD k1: 1*mean1[1] + 1/2*mean2[1]
        step SGD k1
        clear SGD k1
        backward SGD k2: 1*mean1[2] + 1/2*mean2[2]
        step SGD k2
        clear SGD k2
        backward SGD k3: 1*mean1[3] + 1/2*mean2[3]
        step SGD k3
        clear SGD k3
        backward SGD k4: 1*mean1[4] + 1/2*mean2[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: 1*mean1[5] + 1/2*mean2[5]
        step SGD k5
        clear SGD k5
        backward SGD k6: 1*mean1[6] + 1/2*mean2[6]
        step SGD k6
        clear SGD k6
        backward SGD k7: 1*mean1[7] + 1/2*mean2[7]
        step SGD k7
        clear SGD k7
        backward SGD k8: 1*mean1[8] + 1/2*mean2[8]
        step SGD k8
        clear SGD k8
        """,
    ),
    "a masked mean by hand": (
        inside,
        """
        for i, (x, y, mask) in enumerate(loader):
            each = F.cross_entropy(net(x), y, reduction="none")
            loss = (each * mask).sum() / mask.sum()
            (loss / 2).backward()
            if (i + 1) % 2 == 0:
                opt.step()
                opt.zero_grad()
        """,
        """
        region train
        steps 2 2
        backward SGD k1-k2: (1/4, 1/36, 1/38, ?)*sum1[1] + (1/10, 1/84, ?, ?)*sum1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: (1/6, 1/48, 1/50, ?)*sum1[3] + (1/14, 1/24, 1/26, 1/28)*sum1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: (1/8, 1/76, 1/78, 1/80)*sum1[5]
        """,
    ),
    "no gradient under no_grad": (
        inside,
        """
        for x, y in loader:
            with torch.no_grad():
                teacher = F.cross_entropy(net(x), y)
            loss = F.cross_entropy(net(x), y) + teacher
            loss.backward()
            opt.step()
            opt.zero_grad()
        """,
        """
        region train
        backward SGD k1: 1*mean1[1]
        step SGD k1
        clear SGD k1
        backward SGD k2: 1*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3: 1*mean1[3]
        step SGD k3
        clear SGD k3
        backward SGD k4: 1*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: 1*mean1[5]
        step SGD k5
        clear SGD k5
        backward SGD k6: 1*mean1[6]
        step SGD k6
        clear SGD k6
        backward SGD k7: 1*mean1[7]
        step SGD k7
        clear SGD k7
        backward SGD k8: 1*mean1[8]
        step SGD k8
        clear SGD k8
        """,
    ),
}


@pytest.mark.parametrize(("wrap", "body", "expected"), TRACES.values(), ids=TRACES)
def test_the_trace_is_the_reviewed_one(wrap, body: str, expected: str) -> None:  # type: ignore[no-untyped-def]
    assert printed(wrap(body)) == textwrap.dedent(expected).strip()
