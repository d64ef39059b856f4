"""`loss-contracts`: mistakes are said with their line, and what is declared reaches rules and repairs."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import accumlint
from accumlint.cli import config_keys

LOOP = """\
import torch
from tiny import model_loss, TinyLM

def train(loader, optimizer, scheduler, accum=4):
    model = TinyLM(8)
    for i, (x, y) in enumerate(loader):
        {loss}
        (loss / accum).backward()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
DIRECT = "loss = model_loss(model, x, targets=y)"
WEIGHTS = {"ACC101", "ACC102", "ACC103", "ACC107"}


@pytest.fixture
def check(tmp_path: Path):
    """Check the loop with a body for its loss, under contracts."""

    def run(contracts: str, loss: str = DIRECT, loop: str = LOOP) -> accumlint.CheckResult:
        path = tmp_path / "pyproject.toml"
        path.write_text(f"[tool.accumlint.loss-contracts]\n{contracts}\n")
        return accumlint.check_source(loop.replace("{loss}", loss), repairs=True, config=path)

    return run


def codes(result: accumlint.CheckResult) -> set[str]:
    assert not result.problems, result.problems
    return {finding.code for finding in result.findings}


def test_without_a_contract_only_batch_sizes_speak(check) -> None:
    assert codes(check("")) == {"ACC102", "ACC107"}


def test_a_count_of_valid_targets_is_evidence(check) -> None:
    result = check('"tiny.model_loss" = "(targets != -1).sum()"')
    assert codes(result) == {"ACC101", "ACC107"}
    (finding,) = (f for f in result.findings if f.code == "ACC101")
    assert "declared to divide by (targets != -1).sum()" in finding.message
    assert finding.evidence[0][1].line == 7
    assert any("declared: the loss of `tiny.model_loss`" in text for text in finding.assumptions)


def test_a_count_of_rows_leaves_the_batch_sizes(check) -> None:
    assert codes(check('"tiny.model_loss" = "targets.size(0)"')) == {"ACC102", "ACC107"}
    full = LOOP.replace("    model =", "    loader = torch.utils.data.DataLoader(data, 8, drop_last=True)\n    model =")
    assert codes(check('"tiny.model_loss" = "targets.size(0)"', loop=full)) == {"ACC107"}
    assert codes(check('"tiny.model_loss" = "(targets != 0).sum()"', loop=full)) == {"ACC101", "ACC107"}


def test_a_count_that_never_varies_silences_the_weights(check) -> None:
    assert codes(check('"tiny.model_loss" = "1"')) == {"ACC107"}


def test_a_sum_silences_the_rules_about_means(check) -> None:
    assert codes(check('"tiny.model_loss" = { reduction = "sum" }')) & WEIGHTS == set()


def test_a_mean_that_is_divided_nowhere_is_found(check) -> None:
    loop = LOOP.replace("(loss / accum)", "loss")
    assert codes(check("", loop=loop)) == set()
    assert codes(check('"tiny.model_loss" = "(targets != -1).sum()"', loop=loop)) == {"ACC103"}


@pytest.mark.parametrize(
    ("contract", "loss", "count"),
    [
        ('"tiny.model_loss" = "(targets != -1).sum()"', DIRECT, "int((y != -1).sum())"),
        ('"model_loss" = "targets.size(0)"', DIRECT, "y.size(0)"),
        ('"tiny.*_loss" = "targets.sum()"', DIRECT, "float(y.sum())"),
        ('"tiny.TinyLM" = "(labels != 0).sum()"', "loss = model(x, labels=y).loss", "int((y != 0).sum())"),
        ('"TinyLM.forward" = "(labels != 0).sum()"', 'loss = model(x, labels=y)["loss"]', "int((y != 0).sum())"),
        ('"TinyLM" = "(labels != 0).sum()"', "loss = model(x, labels=y)[0]", "int((y != 0).sum())"),
        (
            'TinyLM = { count = "(t != 0).sum()", parameters = ["i", "t"], output = 1 }',
            "logits, loss = model(x, y)",
            "int((y != 0).sum())",
        ),
        (
            'TinyLM = { count = "(t != 0).sum()", output = "nll" }',
            "loss = model(**{'t': y.long()}).nll",
            "int((y.long() != 0).sum())",
        ),
        ('"TinyLM" = "(labels != 0).sum()"', "loss = model(**x).loss", "int((x['labels'] != 0).sum())"),
    ],
)
def test_the_repair_counts_what_is_declared(check, contract: str, loss: str, count: str) -> None:
    result = check(contract, loss)
    fix = next(f.fix for f in result.findings if f.code in ("ACC101", "ACC102"))
    assert fix is not None, [f.unfixable for f in result.findings]
    written = "".join(edit.content for edit in fix.edits)
    assert f" = {count.replace(chr(39), chr(34))}\n" in written.replace("'", '"')
    assert fix.certificate.applicability is accumlint.Applicability.UNSAFE
    assert any(text.startswith("declared: the loss of ") for text in fix.certificate.assumptions)
    assert accumlint.Check.DECLARED in fix.certificate.discharged


@pytest.mark.parametrize(
    ("contract", "loss", "reason"),
    [
        ('"TinyLM" = "(labels != 0).sum()"', "loss = model(x, y).loss", "not among the named arguments"),
        ('"TinyLM" = "(labels != 0).sum()"', "loss = model(x, labels=shift(y)).loss", "computed by a call"),
        ('"TinyLM" = "(labels != 0).sum()"', "loss = model(**x, **y).loss", "not among the named arguments"),
        (
            '"TinyLM" = "(labels != 0).sum()"',
            "out = model(x, labels=y)\n        y = y[1:]\n        loss = out.loss",
            "changes between",
        ),
        (
            '"TinyLM" = "(labels != 0).sum()"',
            "out = model(**x)\n        x.pop('labels')\n        loss = out.loss",
            "changes between",
        ),
    ],
)
def test_a_count_that_cannot_be_written_is_refused(check, contract: str, loss: str, reason: str) -> None:
    result = check(contract, loss)
    finding = next(f for f in result.findings if f.code in ("ACC101", "ACC102"))
    assert finding.fix is None
    assert reason in (finding.unfixable or "")


def test_another_output_is_not_the_loss(check) -> None:
    assert codes(check('TinyLM = { count = "(t != 0).sum()", output = 1 }', "loss, logits = model(x, t=y)")) == {
        "ACC102",
        "ACC107",
    }


def test_requirements_apply_what_is_declared_only_below_the_leaf(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "pyproject.toml"
    path.write_text('[tool.accumlint]\nloss-contracts = { model_loss = "(targets != -1).sum()" }\n')
    text = LOOP.replace("{loss}", DIRECT)
    changed = {
        require: accumlint.repair_source(text, require=require, config=path).changed
        for require in (None, "leaf-checked", "executed", "proved")
    }
    assert changed == {None: False, "leaf-checked": False, "executed": True, "proved": True}
    assert accumlint.repair_source(text, unsafe=True, config=path).changed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('"a.B" = 3', "expected a count expression or a table with count, reduction, parameters, output, not 3"),
        ('"a.B" = "labels !="', "`labels !=` is not a Python expression"),
        ('"a.B" = "labels"', "is not a number"),
        ('"a.B" = "os.system(1)"', "`os.system(1)` cannot stand in a count"),
        ('"a B" = "x.numel()"', "a callable is named by a dotted name"),
        ('"a.B" = { cuont = "x.numel()" }', 'unknown key "cuont"; did you mean "count"?'),
        ('"a.B" = { reduction = "avg" }', "reduction: expected one of mean, sum, not 'avg'"),
        ('"a.B" = { reduction = "mean" }', "count is missing"),
        ('"a.B" = { count = "x.numel()", reduction = "sum" }', "a sum divides by nothing"),
        ('"a.B" = { count = 3 }', "count: expected an expression as a string, not 3"),
        ('"a.B" = { count = "x.numel()", output = true }', "output: expected the name or the index"),
        ('"a.B" = { count = "x.numel()", parameters = "x" }', "parameters: expected a list of names"),
        ('"a.B" = { count = "x.numel()", parameters = ["x y"] }', "'x y' is no name of a parameter"),
    ],
)
def test_mistakes_are_said_with_their_line(run, folder: Path, line: str, message: str) -> None:
    (folder / "a.py").write_text("pass\n")
    (folder / "pyproject.toml").write_text(f'[tool.accumlint.loss-contracts]\n"x.Y" = "1"\n{line}\n')
    done = run("check")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert f'pyproject.toml:3: loss-contracts."{line.split(chr(34))[1]}": ' in done.stderr
    assert message in done.stderr


@pytest.mark.parametrize(
    "table", [{"a": 1}, {"a": {"cuont": "1"}}, {"a": {"reduction": "avg"}}, {"a": {"parameters": "x"}}, 3]
)
def test_the_schema_refuses_what_the_reader_refuses(table: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"loss-contracts": table}, config_keys.schema())


def test_settings_show_the_contracts(run, folder: Path) -> None:
    (folder / "a.py").write_text("pass\n")
    (folder / "pyproject.toml").write_text('[tool.accumlint]\nloss-contracts = { "a.B" = "x.numel()" }\n')
    assert "loss-contracts = {'a.B': 'x.numel()'}" in run("check", "--show-settings").stdout


def test_the_shipped_schema_is_up_to_date(run) -> None:
    assert json.loads(run("config", "--schema").stdout) == config_keys.schema()


def test_explain_and_trace_hold_to_the_contracts(run, folder: Path) -> None:
    (folder / "a.py").write_text(LOOP.replace("{loss}", DIRECT))
    assert "unknown1[1]" in run("trace", "a.py").stdout
    plain = run("explain", "a.py", "--no-repair").stdout
    (folder / "pyproject.toml").write_text(
        '[tool.accumlint]\nloss-contracts = { model_loss = { reduction = "sum" } }\n'
    )
    assert "sum1[1]" in run("trace", "a.py").stdout
    assert run("explain", "a.py", "--no-repair").stdout != plain
    (folder / "pyproject.toml").write_text('[tool.accumlint]\nloss-contracts = { model_loss = "x" }\n')
    for command in ("trace", "explain"):
        done = run(command, "a.py")
        assert (done.returncode, done.stdout) == (2, "")
        assert "pyproject.toml:2: loss-contracts" in done.stderr
