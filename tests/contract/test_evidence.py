"""Why counts can differ, or cannot: what speaks for target counts, for short batches, for equality, or for nothing."""

from __future__ import annotations

import pytest
from test_clauses import one, program, violations

from accumlint.contract.evidence import read_file_facts
from accumlint.contract.verdict import Clause, Confidence
from accumlint.reading.read import read_module

WEIGHTS = {Clause.TARGET_WEIGHT, Clause.BATCH_WEIGHT, Clause.UNPROVEN_WEIGHT}


def loop(loss: str, source: str = "loader", setup: str = "") -> str:
    """Whole windows of two microbatches out of an endless count, so that only the weights are in question."""
    body = f"{setup}\nseen = 0\nfor epoch in range(9):\n    for x, y in {source}:\n        ({loss} / 2).backward()\n"
    return body + "        seen += 1\n        if seen % 2 == 0:\n            opt.step()\n            opt.zero_grad()\n"


CE = "F.cross_entropy(net(x), y)"
TOKENS = "F.cross_entropy(net(x).view(-1, 10), y.view(-1))"
CASES = {
    "ignored targets": (loop("F.cross_entropy(net(x), y, ignore_index=1)"), "", Clause.TARGET_WEIGHT),
    "class weights": (loop("F.cross_entropy(net(x), y, weight=args.weights)"), "", Clause.TARGET_WEIGHT),
    "class weights say more than drop_last": (
        loop("F.cross_entropy(net(x), y, weight=args.weights)"),
        ", drop_last=True",
        Clause.TARGET_WEIGHT,
    ),
    "a mask": (
        loop('(F.cross_entropy(net(x), y, reduction="none") * (y != 0)).sum() / (y != 0).sum()'),
        "",
        Clause.TARGET_WEIGHT,
    ),
    "a selection": (loop("F.mse_loss(net(x)[y > 0], y[y > 0])"), "", Clause.TARGET_WEIGHT),
    "tokens of a padding collate": (
        loop(TOKENS, setup="collate = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)"),
        "",
        Clause.TARGET_WEIGHT,
    ),
    "a last batch that is short": (loop(CE), "", Clause.BATCH_WEIGHT),
    "drop_last": (loop(CE), ", drop_last=True", None),
    "random rows": (
        loop("F.cross_entropy(net(data[rows]), data[rows])").replace(
            "for x, y in loader:", "for _ in range(4):\n        rows = torch.randint(100, (8,))"
        ),
        "",
        None,
    ),
}


@pytest.mark.parametrize(("body", "loader", "expected"), CASES.values(), ids=CASES)
def test_what_speaks_for_which_clause(body: str, loader: str, expected: Clause | None) -> None:
    found = {v.clause for v in violations(program(body, loader))} & WEIGHTS
    assert found == ({expected} if expected is not None else set())


def test_the_evidence_has_a_place() -> None:
    source = program(loop("F.cross_entropy(net(x), y, ignore_index=1)"))
    (evidence,) = one(source, Clause.TARGET_WEIGHT).evidence
    assert evidence.node is not None
    span = read_module(source, "snippet.py").syntax.span(evidence.node)
    assert "ignore_index" in source.splitlines()[span.line - 1]


def test_the_confidence_is_the_weakest_thing_used() -> None:
    plain = one(program(loop(CE)), Clause.BATCH_WEIGHT)
    assert plain.confidence is not Confidence.GUESSED
    class_text = """
import torch.nn.functional as F
import torch

class Trainer:
    def __init__(self, net, loader):
        self.net, self.seen = net, 0
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def one(self, x, y):
        (F.cross_entropy(self.net(x), y, ignore_index=1) / 2).backward()
        self.seen += 1
        if self.seen % 2 == 0:
            self.opt.step()
            self.opt.zero_grad()
"""
    assert one(class_text, Clause.TARGET_WEIGHT).confidence is Confidence.GUESSED


@pytest.mark.parametrize(
    ("text", "padding", "inputs", "rows", "blocks", "norm"),
    [
        ("labels[mask] = -100", True, False, False, False, False),
        ("pad_token_id = 0", True, False, False, False, False),
        ("x = batch['attention_mask']", False, True, False, False, False),
        ("AutoModelForSequenceClassification()", False, False, True, False, False),
        ("x = args.block_size", False, False, False, True, False),
        ("nn.BatchNorm2d(3)", False, False, False, False, True),
        ("x = 100", False, False, False, False, False),
    ],
)
def test_the_facts_of_a_file(text: str, padding: bool, inputs: bool, rows: bool, blocks: bool, norm: bool) -> None:
    facts = read_file_facts(read_module(text + "\n", "snippet.py"))
    assert (facts.padding is not None, facts.padded_inputs is not None) == (padding, inputs)
    assert (facts.rows_only, facts.blocks, facts.batch_norm is not None) == (rows, blocks, norm)
