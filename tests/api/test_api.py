"""The library's names: typed results, the same findings and bytes as the command line, nothing loaded by the import."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import accumlint

SAMPLES = Path(__file__).parents[2] / "samples"
FAULTY = SAMPLES / "token_loss_modulo.py"
RIGHT = SAMPLES / "right_deferred.py"


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_import_loads_no_parser_no_terminal_and_no_torch() -> None:
    heavy = ("libcst", "torch", "rich", "click", "pathspec", "accumlint.api")
    code = f"import accumlint, sys; print([name for name in {heavy!r} if name in sys.modules])"
    assert run_python(code).strip() == "[]"


def test_a_check_loads_no_torch() -> None:
    code = f"import accumlint, sys; accumlint.check_source(open({str(FAULTY)!r}).read()); print('torch' in sys.modules)"
    assert run_python(code).strip() == "False"


def test_every_name_is_there_and_listed() -> None:
    assert set(accumlint.__all__) <= set(dir(accumlint))
    assert all(getattr(accumlint, name) is not None for name in accumlint.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        accumlint.nonsense  # noqa: B018


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_the_same_findings_as_the_command_line(sample: Path) -> None:
    command = [sys.executable, "-m", "accumlint", "check", "--isolated", "--output-format", "json", str(sample)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    expected = [(item["code"], item["location"]["row"], item["location"]["column"]) for item in json.loads(done.stdout)]
    for source in (sample.read_text(encoding="utf-8"), sample.read_bytes()):
        found = accumlint.check_source(source, str(sample)).findings
        assert [(finding.code, finding.span.line, finding.span.column + 1) for finding in found] == expected


def test_results_are_frozen_dataclasses() -> None:
    result = accumlint.check_source(FAULTY.read_text(encoding="utf-8"))
    assert result.filename == "<string>"
    assert result.loops[0].status is accumlint.LoopStatus.ANALYSED
    assert {finding.code for finding in result.findings} == {"ACC101", "ACC304"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.filename = "other"  # type: ignore[misc]


def test_codes_are_selected() -> None:
    text = FAULTY.read_text(encoding="utf-8")
    assert [f.code for f in accumlint.check_source(text, select=["ACC3"]).findings] == ["ACC304"]
    assert [f.code for f in accumlint.check_source(text, ignore=["ACC304"]).findings] == ["ACC101"]
    unused = "x = 1  # noqa: ACC101\n"
    assert accumlint.check_source(unused).findings == ()
    assert [f.code for f in accumlint.check_source(unused, extend_select=["ACC901"]).findings] == ["ACC901"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"select": ["ACC999"]}, "ACC999"),
        ({"ignore": "ACC101"}, "a sequence of codes"),
        ({"strategy": "best"}, "strategy is one of auto, deferred, precount"),
        ({"config": "no/such/pyproject.toml"}, "pyproject.toml"),
    ],
)
def test_wrong_arguments_raise_a_value_error(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        accumlint.check_source("", **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        accumlint.check_paths([RIGHT], **arguments)  # type: ignore[arg-type]


def test_noqa_holds() -> None:
    text = FAULTY.read_text(encoding="utf-8").replace("# expect: ACC101", "# noqa: ACC101")
    assert [f.code for f in accumlint.check_source(text).findings] == ["ACC304"]
    assert accumlint.check_source("# accumlint: noqa\n" + text).findings == ()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(:\n  loss.backward(); opt.step()\n", ""),
        (b"x = '\xff'  # backward step\n", "not valid utf-8"),
        (b"\x00 backward step\n", "null"),
    ],
)
def test_bad_input_is_a_problem(source: str | bytes, message: str) -> None:
    result = accumlint.check_source(source, "a.py")
    (problem,) = result.problems
    assert problem.filename == "a.py"
    assert message in problem.message
    repaired = accumlint.repair_source(source, "a.py")
    assert (repaired.source, repaired.changed) == (source, False)
    assert repaired.result.problems


def test_a_text_may_declare_another_encoding() -> None:
    text = "# coding: latin-1\nname = 'é'\n" + FAULTY.read_text(encoding="utf-8")
    assert len(accumlint.check_source(text).findings) == 2
    assert accumlint.repair_source(text, select=["ACC901"]).source == text


def test_a_repair_gives_back_the_type_it_was_given() -> None:
    unused = "x = 'é'  # noqa: ACC101\r\ny = 2\r\n"
    repaired = accumlint.repair_source(unused, extend_select=["ACC901"])
    assert repaired.source == "x = 'é'\r\ny = 2\r\n"
    assert repaired.changed
    assert repaired.fixed == {"ACC901": 1}
    assert repaired.result.findings == ()
    data = b"\xef\xbb\xbf" + unused.encode()
    assert accumlint.repair_source(data, extend_select=["ACC901"]).source == data.replace(b"  # noqa: ACC101", b"")


def test_what_is_right_is_left_alone() -> None:
    data = RIGHT.read_bytes()
    repaired = accumlint.repair_source(data, "right.py", unsafe=True)
    assert (repaired.source, repaired.changed, repaired.fixed) == (data, False, {})


def test_paths(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_bytes(FAULTY.read_bytes())
    (tmp_path / "broken.py").write_text("def f(: backward step\n")
    (tmp_path / "notes.txt").write_text("no python")
    results = list(accumlint.check_paths([tmp_path, tmp_path / "missing.py"]))
    by_name = {Path(result.filename).name: result for result in results}
    assert set(by_name) == {"bad.py", "broken.py", "missing.py"}
    assert len(by_name["bad.py"].findings) == 2
    assert by_name["broken.py"].problems
    assert by_name["missing.py"].problems
    assert list(accumlint.check_paths([])) == []


def test_a_configuration_is_read_on_request(tmp_path: Path) -> None:
    config = tmp_path / "pyproject.toml"
    config.write_text('[tool.accumlint]\nignore = ["ACC304"]\n')
    text = FAULTY.read_text(encoding="utf-8")
    assert [f.code for f in accumlint.check_source(text, config=config).findings] == ["ACC101"]
    config.write_text('[tool.accumlint]\nignroe = ["ACC304"]\n')
    with pytest.raises(ValueError, match="ignore"):
        accumlint.check_source(text, config=config)


USES = """
from collections.abc import Mapping

import accumlint

checked: accumlint.CheckResult = accumlint.check_source("x = 1", repairs=True)
findings: tuple[accumlint.Finding, ...] = checked.findings
lines: list[int] = [finding.span.line for result in accumlint.check_paths(["src"]) for finding in result.findings]
text: str = accumlint.repair_source("x = 1").source
data: bytes = accumlint.repair_source(b"x = 1", require="proved").source
fixed: Mapping[str, int] = accumlint.repair_source("x = 1").fixed
wrong: int = accumlint.repair_source("x = 1").source
"""


def test_the_names_are_typed(tmp_path: Path) -> None:
    """As a user's type checker sees them: only the last line is an error."""
    pytest.importorskip("mypy")
    (tmp_path / "uses.py").write_text(USES)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", "cache", "uses.py"]
    env = {**os.environ, "MYPYPATH": str(Path(accumlint.__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(errors) == 1, done.stdout
    assert errors[0].startswith("uses.py:12: error: Incompatible types in assignment")
