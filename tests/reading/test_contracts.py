"""Loss contracts as data: what a count may hold, what it counts, and how it is written at a call."""

from __future__ import annotations

import pytest

from accumlint.reading.contracts import ContractError, Counted, classify, make_contract, names_of, parse_count, written


@pytest.mark.parametrize(
    ("count", "counted", "names"),
    [
        ("(labels != -100).sum()", Counted.TARGETS, ("labels",)),
        ("(labels[..., 1:] != -100).sum()", Counted.TARGETS, ("labels",)),
        ("labels[:, 1:].ne(-100).sum()", Counted.TARGETS, ("labels",)),
        ("((labels != 0) & ~mask.bool()).sum()", Counted.TARGETS, ("labels", "mask")),
        ("mask[:, :-1].bool().long().sum()", Counted.TARGETS, ("mask",)),
        ("mask.sum()", Counted.WEIGHTS, ("mask",)),
        ("batch['mask'].sum()", Counted.WEIGHTS, ("batch",)),
        ("labels.size(0)", Counted.ROWS, ("labels",)),
        ("labels.shape[0]", Counted.ROWS, ("labels",)),
        ("len(texts)", Counted.ROWS, ("texts",)),
        ("labels.numel()", Counted.ELEMENTS, ("labels",)),
        ("x.size(0) * x.size(1) - (x == 0).sum()", Counted.TARGETS, ("x",)),
        ("1", Counted.CONSTANT, ()),
    ],
)
def test_what_a_count_counts(count: str, counted: Counted, names: tuple[str, ...]) -> None:
    node = parse_count(count)
    assert classify(node) is counted
    assert names_of(node) == names


@pytest.mark.parametrize(
    "count",
    [
        "",
        "labels !=",
        "__import__('os').system('true')",
        "open('/etc/passwd').read()",
        "labels.__class__.size(0)",
        "labels.device.index",
        "eval(labels)",
        "(lambda: labels)().sum()",
        "[x for x in labels].sum()",
        "(y := labels).sum()",
        "labels.sum(dim=0)",
        "labels.sum(0)",
        "f'{labels}'.size(0)",
        "labels.data.sum()",
        "labels.tolist()",
        "print(labels)",
        "__labels.sum()",
        "labels",
        "labels != -100",
        "0",
        "1.5",
        "True",
        "0 < labels.size(0) < 3",
        "labels.size(*dims)",
        "a.sum()\n+ b.sum()",
        "a.sum()  # rows",
        "(" * 200 + "a" + ")" * 200 + ".sum()",
        "a" + "[0]" * 60 + ".sum()",
        "a.sum() ** 9999999",
    ],
)
def test_what_is_no_count(count: str) -> None:
    with pytest.raises(ContractError) as refused:
        make_contract("m.Model", count)
    assert len(str(refused.value).splitlines()) == 1


def test_a_count_is_written_with_what_the_call_passes() -> None:
    count = "(labels[:, 1:] != pad).sum() + len(labels)"
    passed = {"labels": 'batch["labels"]', "pad": "a or b"}
    assert written(count, passed) == '(batch["labels"][:, 1:] != (a or b)).sum() + len(batch["labels"])'
    with pytest.raises(KeyError):
        written(count, {"labels": "y"})


def test_names_and_patterns() -> None:
    assert make_contract("my.Model.forward", "x.numel()").matches("my.Model")
    assert make_contract("my.Model", "x.numel()").matches("my.Model.__call__")
    assert make_contract("Model", "x.numel()").matches("my.deep.Model")
    assert make_contract("my.losses.*", "x.numel()").matches("my.losses.masked")
    assert not make_contract("my.Model", "x.numel()").matches("Model")
    assert not make_contract("Model", "x.numel()").matches("Models")
    for pattern in ("", "a b", "a;b", "os.system('x')"):
        with pytest.raises(ContractError):
            make_contract(pattern, "x.numel()")


def test_a_sum_has_no_count_and_a_mean_has_one() -> None:
    assert make_contract("f", reduction="sum").count == ""
    with pytest.raises(ContractError, match="divides by nothing"):
        make_contract("f", "x.numel()", reduction="sum")
    with pytest.raises(ContractError, match="reduction"):
        make_contract("f", "x.numel()", reduction="median")
    with pytest.raises(ContractError, match="empty"):
        make_contract("f")


def test_where_the_loss_stands() -> None:
    assert [make_contract("f", "1").is_loss(part) for part in ("loss", 0, 1, "logits")] == [True, True, False, False]
    assert [make_contract("f", "1", output=1).is_loss(part) for part in ("loss", 0, 1)] == [False, False, True]
