"""Small programs around a loop, and the printed traces of them."""

from __future__ import annotations

import re
import textwrap

from accumlint.apis.registry import load
from accumlint.reading.read import read_module
from accumlint.semantics.run import Result, analyse
from accumlint.semantics.trace import Trace, render

IMPORTS = """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

"""
NET = "net = torch.nn.Linear(4, 2)\n"
OPTIMIZER = "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
LOADER = "loader = DataLoader(data, batch_size=8)\n"


def script(body: str) -> str:
    """A loop at the top level of a file, after a model, an optimizer and a loader."""
    return IMPORTS + NET + OPTIMIZER + LOADER + textwrap.dedent(body)


def inside(body: str) -> str:
    """The same in a function."""
    return _function(NET + OPTIMIZER + LOADER + textwrap.dedent(body))


def without_optimizer(body: str) -> str:
    """In a function, the optimizer is the snippet's own."""
    return _function(NET + LOADER + textwrap.dedent(body))


def lightning(body: str) -> str:
    """A module of a framework that makes its own model and optimizer."""
    return IMPORTS + "loader = DataLoader(data)\n" + textwrap.dedent(body)


def _function(body: str) -> str:
    return IMPORTS + "\ndef train(data, args):\n" + textwrap.indent(body, "    ")


def results(source: str) -> list[Result]:
    return analyse(read_module(source, "snippet.py"), load())


def trace(source: str) -> Trace:
    """The default path of the only region of a source, with the first number of steps."""
    (result,) = results(source)
    return result.default[0]


def printed(source: str) -> str:
    """The printed trace, folded; objects are numbered in the order in which they appear."""
    names: dict[str, str] = {}

    def plain(match: re.Match[str]) -> str:
        kind = match[1]
        known = sum(name.partition("#")[0] == kind for name in names.values())
        return names.setdefault(match[0], f"{kind}#{known + 1}" if known else kind)

    return folded(re.sub(r"([\w.]+)@\d+", plain, render(trace(source))))


_EVENT = re.compile(r"(?P<kind>\w+) +(?P<store>\S+) k(?P<at>\d+)(?P<more>[^:]*): (?P<gradient>.*)")


def folded(text: str) -> str:
    """A printed trace without what repeats: backwards that each add a term in one line, a gradient where it changes.

    `backward SGD k1-k3: a + b + c` is three backwards, and `step SGD` uses the gradient that was printed last.
    """
    lines: list[str] = []
    shown: dict[str, str] = {}  # the gradient of a store as it was printed last
    run: tuple[str, int, int, str] | None = None  # store and details, first and last microbatch, gradient
    for line in text.splitlines():
        event = _EVENT.fullmatch(line)
        if event is None:
            lines.append(line)
            run = None
            continue
        store, at, gradient = event["store"], int(event["at"]), event["gradient"]
        name = f"{store}{event['more']}"
        is_backward = event["kind"] == "backward"
        if is_backward and run is not None and run[0] == name and at == run[2] + 1 and _adds_one(run[3], gradient):
            run = (name, run[1], at, gradient)
            lines[-1] = f"backward {store} k{run[1]}-k{at}{event['more']}: {gradient}"
        else:
            run = (name, at, at, gradient) if is_backward else None
            same = shown.get(store) == gradient and not is_backward
            lines.append(f"{event['kind']} {store} k{at}{event['more']}" + ("" if same else f": {gradient}"))
        shown[store] = gradient
    return "\n".join(lines)


def _adds_one(before: str, after: str) -> bool:
    return after.startswith(f"{before} + ") and " + " not in after.removeprefix(f"{before} + ")
