"""Hostile inputs end quickly, as analysed or as not analysed with a reason; nothing hangs and nothing is guessed."""

from __future__ import annotations

import time

import pytest
from loop_snippets import IMPORTS, LOADER, NET, OPTIMIZER, results

SETUP = IMPORTS + NET + OPTIMIZER + LOADER
SECONDS = 12.0
"""A fence against hanging, not a measure: each takes about a second at most on an idle machine."""
LOSS = "F.cross_entropy(net(x), y)"
STEP = "opt.step()\nopt.zero_grad()\n"


def indent(text: str, depth: int = 1) -> str:
    return "".join("    " * depth + line + "\n" for line in text.splitlines())


def loop(body: str) -> str:
    return SETUP + "for x, y in loader:\n" + indent(body)


DEEP_RECURSION = SETUP + (
    "def down(n, x, y):\n"
    "    if n > 0:\n"
    "        down(n - 1, x, y)\n"
    f"    {LOSS}.backward()\n"
    "for x, y in loader:\n"
    "    down(10000, x, y)\n"
    f"    {LOSS}.backward()\n"
    "    opt.step()\n"
)
ENDLESS_RECURSION = SETUP + (
    f"def one(x, y):\n    {LOSS}.backward()\n    one(x, y)\n"
    "def train():\n    for x, y in loader:\n        one(x, y)\n        opt.step()\n"
)
MUTUAL_RECURSION = SETUP + (
    "def ping(x, y):\n    pong(x, y)\n    pong(x, y)\n"
    f"def pong(x, y):\n    {LOSS}.backward()\n    ping(x, y)\n    ping(x, y)\n"
    "def train():\n    for x, y in loader:\n        ping(x, y)\n        opt.step()\n"
)
CALL_TREE = SETUP + (
    "".join(f"def f{n}(x, y):\n    f{n + 1}(x, y)\n    f{n + 1}(x, y)\n    f{n + 1}(x, y)\n" for n in range(5))
    + f"def f5(x, y):\n    {LOSS}.backward()\n"
    + "def train():\n    for x, y in loader:\n        f0(x, y)\n        opt.step()\n"
)
LOSS_TREE = SETUP + (
    "".join(f"def f{n}(x, y):\n    return f{n + 1}(x, y) + f{n + 1}(x, y)\n" for n in range(40))
    + f"def f40(x, y):\n    return {LOSS}\n"
    + "def train():\n    for x, y in loader:\n        f0(x, y).backward()\n        opt.step()\n"
)
DEEP_TREE = SETUP + (
    "".join(f"def f{n}(x, y):\n    f{n + 1}(x, y)\n    f{n + 1}(x, y)\n" for n in range(40))
    + f"def f40(x, y):\n    {LOSS}.backward()\n"
    + "def train():\n    for x, y in loader:\n        f0(x, y)\n        opt.step()\n"
)
INFINITE_WHILE = SETUP + f"x, y = get()\nwhile True:\n    {LOSS}.backward()\n"
WHILE_UNCHANGED = SETUP + f"n = 0\nwhile n < 10:\n    x, y = get()\n    {LOSS}.backward()\n    opt.step()\n"
HUGE_RANGE = SETUP + f"for i in range(10**12):\n    x, y = get()\n    {LOSS}.backward()\n    opt.step()\n"
HUGE_LIST = (
    SETUP
    + f"a = [0] * 10**9\nb = 'x' * 10**9\n1 << 10 ** 9\nfor x, y in loader:\n    {LOSS}.backward()\n    opt.step()\n"
)
NESTED_RANGES = SETUP + (
    "".join(f"{'    ' * d}for i{d} in range(100):\n" for d in range(8))
    + indent(f"x, y = get()\n{LOSS}.backward()\nopt.step()", 8)
)
BRANCHES = loop(
    "".join(f"if args.a{n}:\n    {LOSS}.backward()\nelse:\n    (2 * {LOSS}).backward()\n" for n in range(30)) + STEP
)
NESTED_IFS = SETUP + (
    "for x, y in loader:\n"
    + "".join(f"{' ' * (d + 1)}if args.a{d}:\n" for d in range(60))
    + f"{' ' * 62}{LOSS}.backward()\n"
    + f"{' ' * 62}opt.step()\n"
)
MANY_IFS = loop("".join(f"if i == {n}:\n    continue\n" for n in range(200)) + f"{LOSS}.backward()\n" + STEP)
LONG_FUNCTION = SETUP + (
    "def train(loader):\n    for x, y in loader:\n"
    + "".join(f"        a{n} = net(x) + {n}\n" for n in range(5000))
    + f"        {LOSS}.backward()\n        opt.step()\n        opt.zero_grad()\n"
)
RUNNING_MEANS = loop(
    f"loss = {LOSS}\n"
    "mean = 0.9 * mean + 0.1 * loss.item()\nslow = 0.9 * slow + 0.1 * mean / (slow + mean)\n"
    "n = n * n + y.numel()\nloss = loss * n / (n + slow)\nloss.backward()\n" + STEP
)
DOUBLING_TEXT = (
    SETUP
    + "a = 'x'\nfor i in range(64):\n    a = a + a\n"
    + f"for x, y in loader:\n    {LOSS}.backward()\n    opt.step()\n"
)
SELF_CONTAINED = (
    SETUP
    + (
        "a = []\na.append(a)\nd = {}\nd['d'] = d\nclass C(C): pass\n"
        "class D:\n    @property\n    def p(self): return self.p\nD().p\n"
    )
    + f"for x, y in loader:\n    {LOSS}.backward()\n    opt.step()\n    print(a, d, sum(a))\n"
)
ENDLESS_GENERATOR = SETUP + (
    "def forever():\n    while True:\n        yield 1\n"
    f"for i in forever():\n    x, y = get()\n    {LOSS}.backward()\n    list(forever())\n    opt.step()\n"
)
COMPREHENSIONS = loop(
    f"t = sum(1 for a in range(1000) for b in range(1000) for c in range(1000))\n({LOSS} / t).backward()\n" + STEP
)
HOSTILE = {
    name.lower(): text
    for name, text in list(globals().items())
    if name.isupper() and isinstance(text, str) and "backward" in text
}


REASONS = {
    "nested_ranges": "too many gradient events",
    "long_function": "the step budget is spent",
    "comprehensions": "the step budget is spent",
    "self_contained": "nested too deeply",
    "loss_tree": "functions call each other too often within one iteration",
    "deep_tree": "functions call each other too often within one iteration",
    "call_tree": "functions call each other too often within one iteration",
}
"""What is not analysed says why; everything else is followed, or cut off without a wrong reading."""


@pytest.mark.parametrize("name", HOSTILE)
def test_ends_quickly_and_says_why(name: str) -> None:
    began = time.process_time()
    found = results(HOSTILE[name])
    assert time.process_time() - began < SECONDS
    assert {result.stopped for result in found if result.stopped} == ({REASONS[name]} if name in REASONS else set())


def test_a_spent_file_costs_nothing_more() -> None:
    """Where the file's budget is spent, its set-up is not run again for each loop that is left."""
    loops = "".join(f"def train{n}(x, y):\n    for _ in loader:\n        {LOSS}.backward()\n" for n in range(400))
    began = time.process_time()
    found = results(SETUP + "".join(f"a{n} = b{n} + 1\n" for n in range(3_000)) + loops)
    assert time.process_time() - began < 4 * SECONDS
    assert {result.stopped for result in found[-100:]} == {"the step budget is spent"}


@pytest.mark.parametrize("number", ["0x" + "f" * 20_000, "1" * 4_000, str(10**18 + 1)])
def test_a_number_that_counts_nothing_is_no_number(number: str) -> None:
    """Python itself refuses to write the first one down."""
    (result,) = results(loop(f"loss = {LOSS} * {number}\nloss.backward()\n" + STEP))
    assert not result.stopped
