"""The shapes that accumulation loops have in real code, each with the trace that it must leave, read by hand."""

from __future__ import annotations

import textwrap

import pytest
from loop_snippets import printed, script

TRACES = {
    "modulo of an enumerate": (
        script,
        """
        for i, (x, y) in enumerate(loader):
            (F.cross_entropy(net(x), y) / 2).backward()
            if (i + 1) % 2 == 0:
                opt.step()
                opt.zero_grad()
        """,
        """
        region <script>
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
    "the number of steps is an argument": (
        script,
        """
        for i, (x, y) in enumerate(loader):
            (F.cross_entropy(net(x), y) / args.accum).backward()
            if (i + 1) % args.accum == 0:
                opt.step()
                opt.zero_grad()
        """,
        """
        region <script>
        steps 3 args.accum
        backward SGD k1-k3: 1/3*mean1[1] + 1/3*mean1[2] + 1/3*mean1[3]
        step SGD k3
        clear SGD k3
        backward SGD k4-k6: 1/3*mean1[4] + 1/3*mean1[5] + 1/3*mean1[6]
        step SGD k6
        clear SGD k6
        backward SGD k7-k8: 1/3*mean1[7] + 1/3*mean1[8]
        """,
    ),
    "flush on the last batch": (
        script,
        """
        for i, (x, y) in enumerate(loader):
            (F.cross_entropy(net(x), y) / 4).backward()
            if (i + 1) % 4 == 0 or i == len(loader) - 1:
                opt.step()
                opt.zero_grad()
        """,
        """
        region <script>
        steps 4 4
        backward SGD k1-k4: 1/4*mean1[1] + 1/4*mean1[2] + 1/4*mean1[3] + 1/4*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5-k8: 1/4*mean1[5] + 1/4*mean1[6] + 1/4*mean1[7] + 1/4*mean1[8]
        step SGD k8
        clear SGD k8
        backward SGD k9-k10: 1/4*mean1[9] + 1/4*mean1[10]
        step SGD k10
        clear SGD k10
        """,
    ),
    "flush after the loop": (
        script,
        """
        for i, (x, y) in enumerate(loader):
            (F.cross_entropy(net(x), y) / 4).backward()
            if (i + 1) % 4 == 0:
                opt.step()
                opt.zero_grad()
        if len(loader) % 4:
            opt.step()
            opt.zero_grad()
        """,
        """
        region <script>
        steps 4 4
        backward SGD k1-k4: 1/4*mean1[1] + 1/4*mean1[2] + 1/4*mean1[3] + 1/4*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5-k8: 1/4*mean1[5] + 1/4*mean1[6] + 1/4*mean1[7] + 1/4*mean1[8]
        step SGD k8
        clear SGD k8
        backward SGD k9-k10: 1/4*mean1[9] + 1/4*mean1[10]
        step SGD k10
        clear SGD k10
        """,
    ),
    "zero-based modulo": (
        script,
        """
        for i, (x, y) in enumerate(loader):
            (F.cross_entropy(net(x), y) / 2).backward()
            if i % 2 == 0:
                opt.step()
                opt.zero_grad()
        """,
        """
        region <script>
        steps 2 2
        backward SGD k1: 1/2*mean1[1]
        step SGD k1
        clear SGD k1
        backward SGD k2-k3: 1/2*mean1[2] + 1/2*mean1[3]
        step SGD k3
        clear SGD k3
        backward SGD k4-k5: 1/2*mean1[4] + 1/2*mean1[5]
        step SGD k5
        clear SGD k5
        """,
    ),
    "enumerate from one": (
        script,
        """
        for i, (x, y) in enumerate(loader, 1):
            (F.cross_entropy(net(x), y) / 2).backward()
            if i % 2 == 0:
                opt.step()
                opt.zero_grad()
        """,
        """
        region <script>
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
    "counter bumped before the test": (
        script,
        """
        k = 0
        for x, y in loader:
            k += 1
            (F.cross_entropy(net(x), y) / 2).backward()
            if k % 2 == 0:
                opt.step()
                opt.zero_grad()
        """,
        """
        region <script>
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
    "counter reset at the boundary": (
        script,
        """
        pending = 0
        for x, y in loader:
            (F.cross_entropy(net(x), y) / 2).backward()
            pending += 1
            if pending == 2:
                opt.step()
                opt.zero_grad()
                pending = 0
        """,
        """
        region <script>
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
    "microstep loop with next": (
        script,
        """
        it = iter(loader)
        for step in range(2):
            opt.zero_grad()
            for micro in range(3):
                x, y = next(it)
                (F.cross_entropy(net(x), y) / 3).backward()
            opt.step()
        """,
        """
        region <script>
        steps 3 3
        clear SGD k0: 0
        backward SGD k1-k3: 1/3*mean1[1] + 1/3*mean1[2] + 1/3*mean1[3]
        step SGD k3
        clear SGD k3
        backward SGD k4-k6: 1/3*mean1[4] + 1/3*mean1[5] + 1/3*mean1[6]
        step SGD k6
        """,
    ),
    "division of the gradient after the loop": (
        script,
        """
        for step in range(2):
            opt.zero_grad()
            for micro in range(2):
                x, y = get_batch()
                F.cross_entropy(net(x), y).backward()
            for p in net.parameters():
                p.grad /= 2
            opt.step()
        """,
        """
        region <script>
        steps 2 2
        clear SGD k0: 0
        backward SGD k1-k2: 1*mean1[1] + 1*mean1[2]
        scale SGD k2 /: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1*mean1[3] + 1*mean1[4]
        scale SGD k4 /: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        """,
    ),
    "slices of one batch": (
        script,
        """
        for x, y in loader:
            opt.zero_grad()
            for start in range(0, 8, 4):
                part, target = x[start:start + 4], y[start:start + 4]
                F.cross_entropy(net(part), target).backward()
            opt.step()
        """,
        """
        region <script>
        steps 2 2
        clear SGD k0: 0
        backward SGD k1-k2: 1*mean1[1] + 1*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1*mean1[3] + 1*mean1[4]
        step SGD k4
        """,
    ),
    "a sum over the slices of one batch": (
        script,
        """
        for x, y in loader:
            opt.zero_grad()
            for start in range(0, 8, 4):
                loss = F.cross_entropy(net(x[start:start + 4]), y[start:start + 4], reduction="sum")
                (loss / 8).backward()
            opt.step()
        """,
        """
        region <script>
        steps 2 2
        clear SGD k0: 0
        backward SGD k1-k2: 1/8*sum1[1] + 1/8*sum1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/8*sum1[3] + 1/8*sum1[4]
        step SGD k4
        """,
    ),
    "collect, then loop": (
        script,
        """
        held = []
        for batch in loader:
            held.append(batch)
            if len(held) < 2:
                continue
            for x, y in held:
                (F.cross_entropy(net(x), y) / len(held)).backward()
            opt.step()
            opt.zero_grad()
            held.clear()
        """,
        """
        region <script>
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        clear SGD k4
        """,
    ),
    "a generator of windows": (
        script,
        """
        def windows(loader, size):
            held = []
            for batch in loader:
                held.append(batch)
                if len(held) == size:
                    yield held
                    held = []

        for window in windows(loader, 2):
            for x, y in window:
                (F.cross_entropy(net(x), y) / len(window)).backward()
            opt.step()
            opt.zero_grad()
        """,
        """
        region <script>
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        clear SGD k4
        """,
    ),
    "early exit by continue": (
        script,
        """
        for i, (x, y) in enumerate(loader, 1):
            (F.cross_entropy(net(x), y) / 2).backward()
            if i % 2 != 0:
                continue
            opt.step()
            opt.zero_grad()
        """,
        """
        region <script>
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
    "a flag": (
        script,
        """
        for i, (x, y) in enumerate(loader):
            accumulating = (i + 1) % 2 != 0
            (F.cross_entropy(net(x), y) / 2).backward()
            if not accumulating:
                opt.step()
                opt.zero_grad()
        """,
        """
        region <script>
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
    "right token weights, counted before": (
        script,
        """
        from itertools import islice
        it = iter(loader)
        for step in range(2):
            window = list(islice(it, 2))
            total = sum((y != -100).sum().item() for _, y in window)
            for x, y in window:
                (F.cross_entropy(net(x), y, ignore_index=-100, reduction="sum") / total).backward()
            opt.step()
            opt.zero_grad()
        """,
        """
        region <script>
        steps 2 2
        backward SGD k1-k2: (1/7, 1/60, 1/19, ?)*sum1[1] + (1/7, 1/60, 1/19, ?)*sum1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: (1/10, 1/36, 1/38, 1/14)*sum1[3] + (1/10, 1/36, 1/38, 1/14)*sum1[4]
        step SGD k4
        clear SGD k4
        """,
    ),
    "right token weights, counted on the way": (
        script,
        """
        total = 0
        for i, (x, y) in enumerate(loader, 1):
            F.cross_entropy(net(x), y, reduction="sum").backward()
            total += (y != -100).sum().item()
            if i % 2 == 0:
                for p in net.parameters():
                    p.grad.div_(total)
                torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
                total = 0
        """,
        """
        region <script>
        steps 2 2
        backward SGD k1-k2: 1*sum1[1] + 1*sum1[2]
        scale SGD k2 /: (1/7, 1/60, 1/19, ?)*sum1[1] + (1/7, 1/60, 1/19, ?)*sum1[2]
        clip SGD k2 norm
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1*sum1[3] + 1*sum1[4]
        scale SGD k4 /: (1/10, 1/36, 1/38, 1/14)*sum1[3] + (1/10, 1/36, 1/38, 1/14)*sum1[4]
        clip SGD k4 norm
        step SGD k4
        clear SGD k4
        backward SGD k5: 1*sum1[5]
        """,
    ),
    "while with next and StopIteration": (
        script,
        """
        it = iter(loader)
        done = 0
        while done < 4:
            try:
                x, y = next(it)
            except StopIteration:
                it = iter(loader)
                x, y = next(it)
            (F.cross_entropy(net(x), y) / 2).backward()
            done += 1
            if done % 2 == 0:
                opt.step()
                opt.zero_grad()
        """,
        """
        region <script>
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        clear SGD k4
        """,
    ),
    "chunks by islice": (
        script,
        """
        from itertools import islice
        it = iter(loader)
        while chunk := list(islice(it, 2)):
            for x, y in chunk:
                (F.cross_entropy(net(x), y) / len(chunk)).backward()
            opt.step()
            opt.zero_grad()
        """,
        """
        region <script>
        steps 2 2
        backward SGD k1-k2: 1/2*mean1[1] + 1/2*mean1[2]
        step SGD k2
        clear SGD k2
        backward SGD k3-k4: 1/2*mean1[3] + 1/2*mean1[4]
        step SGD k4
        clear SGD k4
        backward SGD k5: 1*mean1[5]
        step SGD k5
        clear SGD k5
        """,
    ),
    "one call hides all": (
        script,
        """
        from timm.utils import NativeScaler
        scaler = NativeScaler()
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(net(x), y) / 2
            scaler(loss, opt, clip_grad=1.0, parameters=net.parameters(), need_update=(i + 1) % 2 == 0)
            if (i + 1) % 2 == 0:
                opt.zero_grad()
        """,
        """
        region <script>
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
}


@pytest.mark.parametrize(("wrap", "body", "expected"), TRACES.values(), ids=TRACES)
def test_the_trace_is_the_reviewed_one(wrap, body: str, expected: str) -> None:  # type: ignore[no-untyped-def]
    assert printed(wrap(body)) == textwrap.dedent(expected).strip()
