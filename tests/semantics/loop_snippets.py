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
    """The printed trace; objects are numbered in the order of their appearance, not by the node that made them."""
    names: dict[str, str] = {}

    def plain(match: re.Match[str]) -> str:
        kind = match[1]
        known = sum(name.partition("#")[0] == kind for name in names.values())
        return names.setdefault(match[0], f"{kind}#{known + 1}" if known else kind)

    return re.sub(r"([\w.]+)@\d+", plain, render(trace(source)))
