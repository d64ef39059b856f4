"""`accumlint explain`: the drawn numbers are those of the trace; the page needs nothing but itself."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import pytest

LOOP = """
import torch
import torch.nn.functional as F

def train(net, loader, opt, sched):
    for i, (x, y) in enumerate(loader):
        (F.cross_entropy(net(x), y) / 2).backward()
        if (i + 1) % 2 == 0:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            sched.step()
            opt.zero_grad()
"""
SUMS = """
import torch.nn.functional as F

def sums(net, loader, opt):
    for x, y in loader:
        opt.zero_grad()
        (F.cross_entropy(net(x), y, reduction="sum") / (y != -100).sum()).backward()
        opt.step()
"""
TOKENS = """
import torch
import torch.nn.functional as F

def train(net, loader, opt):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(net(x), y, ignore_index=-100) / 2
        loss.backward()
        if (i + 1) % 2 == 0 or i + 1 == len(loader):
            opt.step()
            opt.zero_grad()
"""
STALE = LOOP.replace("            opt.zero_grad()\n", "")


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def rows(text: str) -> list[list[str]]:
    return [match.split() for match in re.findall(r"^      (k\d.*)$", text, re.MULTILINE)]


def test_means_of_unequal_counts(run, folder: Path) -> None:
    (folder / "a.py").write_text(LOOP)
    done = run("explain", "a.py", fake=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    original, _, repaired = done.stdout.partition("\n  repaired: window")
    for _, count, gets, should, ratio, *_ in rows(original):
        assert Fraction(gets) == Fraction(1, 2) / Fraction(count)
        assert Fraction(ratio.rstrip("x")) == Fraction(gets) / Fraction(should)
    assert rows(repaired)  # the partial window, which only the repaired loop steps for
    assert all(gets == should and ratio == "1x" for _, _, gets, should, ratio, *_ in rows(repaired))
    (_, first, _, should, *_), (_, second, *_) = rows(original)[:2]
    assert Fraction(should) == 1 / (Fraction(first) + Fraction(second))
    assert "each microbatch's mean times 1/2, whatever its count" in done.stdout
    happens = "clip (norm) [line 9] -> step [line 10] -> schedule (sched) [line 11] -> clear [line 12]\n"
    assert f"    k1 backward -> k2 backward -> {happens}" in done.stdout


def test_right_weights(run, folder: Path) -> None:
    (folder / "a.py").write_text(SUMS)
    done = run("explain", "a.py", fake=False)
    assert done.returncode == 0
    assert rows(done.stdout)
    assert all(row[2] == row[3] and row[4] == "1x" for row in rows(done.stdout))
    assert "clear [line 6] -> k1 backward -> step [line 8] -> clear [line 6]\n" in done.stdout


def test_what_an_earlier_window_left(run, folder: Path) -> None:
    (folder / "a.py").write_text(STALE)
    second = run("explain", "a.py", fake=False).stdout.split("window 2")[1].split("window 3")[0]
    assert [(row[0], row[3]) for row in rows(second)][:2] == [("k1", "0"), ("k2", "0")]
    assert all(Fraction(row[2]) > 0 for row in rows(second))


def test_the_loop_of_a_line(run, folder: Path) -> None:
    (folder / "a.py").write_text(LOOP + SUMS)
    assert " train" in run("explain", "a.py:7", fake=False).stdout
    only = run("explain", "a.py:18", fake=False).stdout
    assert " sums" in only
    assert " train" not in only


def test_loops_that_are_not_drawn(run, folder: Path) -> None:
    (folder / "a.py").write_text("def f(t):\n    t.backward()\n")
    done = run("explain", "a.py", fake=False)
    assert done.returncode == 0
    assert "not drawn: no step of an optimizer was seen" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.py"], "none.py: cannot be read"),
        (["a.py:1"], "no training loop at line 1 of a.py"),
        (["a.py:0"], "there is no line 0"),
        (["a.py:99999999999"], "there is no line"),
        (["plain.py"], "no training loop in plain.py"),
        (["bad.py"], "bad.py:1: "),
        (["n.ipynb:3"], "is a notebook"),
        (["a.py", "--html", "no/such/out.html"], "--html: "),
        (["a.py", "--json", "no/such/out.json"], "--json: "),
    ],
)
def test_errors(run, folder: Path, arguments: list[str], message: str) -> None:
    (folder / "a.py").write_text(LOOP)
    (folder / "plain.py").write_text("x = 1\n")
    (folder / "bad.py").write_text("def (")
    (folder / "n.ipynb").write_text(notebook(LOOP))
    done = run("explain", *arguments, fake=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def notebook(code: str) -> str:
    cell = {"cell_type": "code", "source": code, "metadata": {}, "outputs": [], "execution_count": None}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]})


def test_a_notebook_and_colours(run, folder: Path) -> None:
    (folder / "n.ipynb").write_text(notebook(LOOP))
    done = run("explain", "n.ipynb", fake=False, env={"FORCE_COLOR": "1"})
    assert done.returncode == 0
    assert "\x1b[" in done.stdout
    assert "cell 1 line 10" in re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)


def test_the_page(run, folder: Path) -> None:
    (folder / "a<b>.py").write_text(LOOP)
    done = run("explain", "a<b>.py", "--html", "out.html", fake=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = (folder / "out.html").read_text(encoding="utf-8")
    tags = Page(text).tags
    names = {tag for tag, _ in tags}
    assert "svg" in names
    assert not names & {"script", "link", "img", "iframe", "b"}
    assert not re.search(r"https?:|url\(|@import", text)
    assert "prefers-color-scheme:dark" in text
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in tags
    drawn = [a for tag, a in tags if tag == "g"]
    bars = [a for tag, a in tags if tag == "rect" and a["class"] != "track"][3:]  # after those of the legend
    shown = rows(run("explain", "a<b>.py", fake=False).stdout)
    originals = [[f"k{a['data-microbatch']}", a["data-count"], a["data-gets"], a["data-should"]] for a in drawn]
    assert [row for row in originals if row in [r[:4] for r in shown]] == [row[:4] for row in shown]
    for group, gets, should in zip(drawn, bars[::2], bars[1::2], strict=True):
        ratio = Fraction(str(group["data-gets"])) / Fraction(str(group["data-should"]))
        widths = [float(str(bar["width"]).rstrip("%")) for bar in (gets, should)]
        assert widths[0] / widths[1] == pytest.approx(float(ratio), rel=0.01)


def numbers(page: str, kind: str) -> list[list[Fraction]]:
    """count, gets, should of each microbatch that is drawn for the original or the repaired loop."""
    found = []
    for article in page.split("<article ")[1:]:
        if f'data-text="{kind}"' in article:
            found += re.findall(r'data-count="(.+?)" data-gets="(.+?)" data-should="(.+?)"', article)
    return [[Fraction(number) for number in row] for row in found]


def test_the_repaired_windows_are_drawn_beside(run, folder: Path) -> None:
    (folder / "a.py").write_text(TOKENS)
    done = run("explain", "a.py", "--html", "out.html", "--json", "out.json", fake=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = (folder / "out.html").read_text(encoding="utf-8")
    original, repaired = numbers(page, "original"), numbers(page, "repaired")
    assert any(gets != should for _, gets, should in original)
    assert repaired
    assert all(gets == should for _, gets, should in repaired)
    (loop,) = json.loads((folder / "out.json").read_text())
    for kind, windows in (("original", loop["windows"]), ("repaired", loop["repaired"])):
        all_shares = [share for window in windows for loss in window["losses"] for share in loss["shares"]]
        written = [[Fraction(s["count"]), Fraction(s["gets"]), Fraction(s["should"])] for s in all_shares]
        assert all(row in written for row in numbers(page, kind))
    assert any(event["what"].startswith("divide by ") for event in loop["repaired"][0]["events"])
    text = run("explain", "a.py", fake=False).stdout
    assert "    repaired: k1 backward -> k2 backward -> divide by " in text
    row = rows(text)[0]
    assert (row[-3], row[-2]) == (row[3], "1x")
    without = run("explain", "a.py", "--no-repair", fake=False).stdout
    assert "repaired" not in without


def test_windows_that_look_like_earlier_ones_are_counted(run, folder: Path) -> None:
    (folder / "a.py").write_text(LOOP)
    few, many = (run("explain", "a.py", *options, fake=False).stdout for options in ((), ("--all",)))
    hidden = sum(int(n) for n in re.findall(r"(\d+) more windows? looks? like those above", few))
    assert hidden > 0
    assert many.count("  window ") == few.count("  window ") + hidden
