"""The cache: the same results with and without it, and never an old one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from accumlint.cli import stamps
from accumlint.cli.cache import Cache
from accumlint.cli.inputs import Input
from accumlint.cli.settings import NO_FLAGS, gather
from accumlint.cli.stored import CorruptError, Result, dump, load
from accumlint.findings import Edit, Finding, Fix, Loop, LoopStatus, Problem
from accumlint.reading.footprint import ABSENT, digest
from accumlint.reading.program import Span
from accumlint.repair.certificate import Certificate, Check, Measure

ROOT = Path(__file__).parents[2]
LOOP = """
def train(model, loader, optimizer, loss_of):
    for i, (x, y) in enumerate(loader):
        loss = loss_of(model(x), y) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
HELPER = """
import torch.nn.functional as F


def loss_of(logits, labels):
    return F.cross_entropy(logits, labels, reduction="mean")
"""
USER = LOOP.replace("loader, optimizer, loss_of", "loader, optimizer").replace(
    "\ndef", "\nfrom {} import loss_of\n\ndef"
)
EVEN = HELPER.replace('"mean"', '"sum"')


def found(run, *arguments: str) -> list[str]:
    """The codes of the findings; the real engine."""
    done = run("check", "--output-format", "json", "--exit-zero", *arguments, fake=False)
    assert done.returncode == 0, done.stderr
    return [each["code"] for each in json.loads(done.stdout)]


def cached(folder: Path) -> list[Path]:
    return sorted((folder.parent / ".accumlint_cache").glob("*.json"))


def count_checks(run, folder: Path, *arguments: str) -> int:
    """How many files a run checks itself, by what the stand-in engine is asked."""
    log = folder.parent / "asked"
    log.unlink(missing_ok=True)
    run("check", "--exit-zero", *arguments, env={"ACCUMLINT_FAKE_LOG": str(log)})
    return len(log.read_text().splitlines()) if log.exists() else 0


# ---------------------------------------------------------------------------------------- the same results


@pytest.mark.parametrize("tree", ["samples", "tests/cases/dev"])
def test_a_second_run_prints_what_the_first_did(run, folder: Path, tree: str) -> None:
    shutil.copytree(ROOT / tree, folder / "tree")
    without = run("check", "-v", "--output-format", "concise", "--no-cache", "tree", fake=False)
    assert not cached(folder)
    first = run("check", "-v", "--output-format", "concise", "tree", fake=False)
    assert len(cached(folder)) == 1
    second = run("check", "-v", "--output-format", "concise", "tree", fake=False)
    assert without.stdout.count("ACC") > 3
    for done in (first, second):
        assert (done.returncode, done.stdout, done.stderr) == (without.returncode, without.stdout, without.stderr)


@pytest.mark.parametrize("form", ["json", "sarif", "concise", "github"])
def test_every_form_is_the_same(run, folder: Path, form: str) -> None:
    shutil.copy(ROOT / "samples" / "token_loss_modulo.py", folder)
    shutil.copy(ROOT / "samples" / "trainer_class_clip.py", folder)
    runs = [run("check", "--output-format", form, fake=False).stdout for _ in range(2)]
    assert "ACC" in runs[0]
    assert runs[0] == runs[1]


def test_what_is_known_is_not_checked_again(run, folder: Path) -> None:
    for number in range(12):
        (folder / f"m{number}.py").write_text(f"acc201_safe({number})\n" if number % 2 else "x = 1\n")
    assert count_checks(run, folder) == 12
    assert count_checks(run, folder) == 0
    (folder / "m3.py").write_text("acc201_safe(33)\n")
    assert count_checks(run, folder) == 1
    assert count_checks(run, folder, "-j", "2") == 0
    assert count_checks(run, folder, "--no-cache") == 12
    assert count_checks(run, folder, "--select", "ACC1") == 12
    assert count_checks(run, folder, "--output-format", "concise") == 12
    assert count_checks(run, folder) == 0


def test_flags_that_change_a_result_have_a_cache_of_their_own(run, folder: Path) -> None:
    (folder / "a.py").write_text("acc201_safe(1)  # noqa\n")
    assert run("check").returncode == 0
    done = run("check", "--ignore-noqa")
    assert done.returncode == 1, done.stderr
    assert run("check").returncode == 0
    assert count_checks(run, folder, "--extend-exclude", "other", "-q", "--statistics") == 0
    assert count_checks(run, folder, "--per-file-ignores", "b.py:ACC201") == 1
    assert count_checks(run, folder, "--strategy", "precount") == 1


def test_a_pool_fills_the_cache_too(run, folder: Path) -> None:
    for number in range(12):
        (folder / f"m{number}.py").write_text(f"acc201_safe({number})\n")
    assert run("check", "-j", "2", "--exit-zero").returncode == 0
    assert count_checks(run, folder) == 0


def test_repairs_are_never_applied_from_the_cache(run, folder: Path) -> None:
    (folder / "a.py").write_text("acc201_safe(1)\n")
    run("check")
    assert count_checks(run, folder) == 0
    assert count_checks(run, folder, "--diff") > 0
    assert count_checks(run, folder, "--fix") > 0
    assert (folder / "a.py").read_text() == "good(1)\n"


def test_faults_of_the_tool_are_not_kept(run, folder: Path) -> None:
    (folder / "a.py").write_text("crash()\n")
    (folder / "b.py").write_text("raising()\n")
    assert (count_checks(run, folder), count_checks(run, folder)) == (2, 2)
    assert run("check").returncode == 2


def test_a_syntax_error_is_kept_and_said_each_time(run, folder: Path) -> None:
    (folder / "a.py").write_text("def f(:\n")
    first, second = run("check"), run("check")
    assert (first.returncode, first.stderr) == (second.returncode, second.stderr) == (2, first.stderr)


# ------------------------------------------------------------------------------------------ never an old one


def test_a_file_that_is_followed_counts(run, folder: Path) -> None:
    (folder / "train.py").write_text(USER.format("losses"))
    (folder / "losses.py").write_text(HELPER)
    before = found(run)
    assert "ACC102" in before
    assert found(run) == before
    (folder / "losses.py").write_text(EVEN)
    after = found(run)
    assert after == found(run, "--no-cache")
    assert after != before


def test_a_file_behind_the_one_that_is_followed_counts(run, folder: Path) -> None:
    (folder / "train.py").write_text(USER.format("losses"))
    (folder / "losses.py").write_text("import loss\nfrom inner import loss_of\n")
    (folder / "inner.py").write_text(HELPER)
    before = found(run)
    assert "ACC102" in before
    (folder / "inner.py").write_text(EVEN)
    assert found(run) == found(run, "--no-cache") != before


def test_a_file_that_appears_or_goes_counts(run, folder: Path) -> None:
    (folder / "train.py").write_text(USER.format("losses"))
    alone = found(run)
    (folder / "losses.py").write_text(EVEN)
    both = found(run)
    assert both == found(run, "--no-cache") != alone
    (folder / "losses.py").unlink()
    assert found(run) == alone


def test_a_new_root_counts(run, folder: Path) -> None:
    """The helper is out of the project as soon as the inner folder is a project of its own."""
    (folder / "inner").mkdir()
    (folder / "inner" / "train.py").write_text(USER.format("losses"))
    (folder / "losses.py").write_text(EVEN)
    (folder / "setup.py").write_text("")
    before = found(run)
    (folder / "inner" / "setup.py").write_text("")
    assert found(run) == found(run, "--no-cache") != before


OLD_TRAINER = """
from transformers import Trainer

class T(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        logits = model(**inputs).logits
        return torch.nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), ignore_index=-100)
"""


@pytest.mark.parametrize("name", ["requirements.txt", "dev-requirements.txt", "requirements/requirements-gpu.txt"])
def test_requirements_count(run, folder: Path, name: str) -> None:
    """A Trainer that counts no targets yet needs no count: the requirements say which one is meant."""
    (folder / "setup.py").write_text("")
    (folder / "train.py").write_text("import torch\n" + OLD_TRAINER)
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    newest = found(run)
    assert "ACC105" in newest
    file.write_text("transformers<4.40\n")
    assert found(run) == []
    file.write_text("transformers<9.40\n")
    assert found(run) == newest
    file.unlink()
    assert found(run) == newest


# ---------------------------------------------------------------------------------------------- files not read


def test_a_file_that_was_not_touched_is_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "a.py"
    file.write_text("x = 1\n")
    monkeypatch.setattr(stamps, "SETTLED", -1_000_000_000)
    first = stamps.Stamps(100)
    before = first.digest_of(str(file))
    assert before == digest(b"x = 1\n")
    assert first.changed
    second = stamps.Stamps(100)
    second.load(json.loads(json.dumps(first.known)))
    opened: list[str] = []
    monkeypatch.setattr("builtins.open", lambda *arguments: opened.append(arguments[0]))
    assert second.digest_of(str(file)) == before
    assert (opened, second.changed) == ([], False)


@pytest.mark.parametrize("text", ["x = 1  # longer\n", "x = 2\n"])
def test_a_file_that_was_touched_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Also where its size and the time of its content are as they were."""
    file = folder / "a.py"
    file.write_text("x = 1\n")
    monkeypatch.setattr(stamps, "SETTLED", -1_000_000_000)
    known = stamps.Stamps(100)
    known.digest_of(str(file))
    status = file.stat()
    time.sleep(0.02)
    file.write_text(text)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    later = stamps.Stamps(100)
    later.load(known.known)
    assert later.digest_of(str(file)) == digest(text.encode())


def test_a_file_that_was_just_written_is_not_trusted(folder: Path) -> None:
    file = folder / "a.py"
    file.write_text("x = 1\n")
    fresh = stamps.Stamps(100)
    assert fresh.digest_of(str(file)) == digest(b"x = 1\n")
    assert (fresh.known, fresh.changed) == ({}, False)


def test_a_file_that_is_gone_is_absent(folder: Path) -> None:
    assert stamps.Stamps(100).digest_of(str(folder / "none.py")) == ABSENT


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"format": 1}', '{"format": 1, "places": 3, "entries": 4}'])
def test_a_damaged_cache_is_none(run, folder: Path, damage: str) -> None:
    (folder / "a.py").write_text(LOOP)
    first = run("check", fake=False).stdout
    (file,) = cached(folder)
    file.write_text(damage)
    assert run("check", fake=False).stdout == first
    assert json.loads(file.read_text())["entries"]


def test_a_damaged_entry_is_none(run, folder: Path) -> None:
    """What is known in spite of it has an odd but well-formed value: another day, no findings."""
    (folder / "a.py").write_text("acc201_safe(1)\n")
    first = run("check").stdout
    (file,) = (folder.parent / "of_the_stand_in").glob("*.json")
    content = json.loads(file.read_text())
    (entry,) = content["entries"].values()
    whole = json.dumps(entry)
    known, refused = 0, 0
    for at in range(len(entry)):
        for value in (None, -5, "x", [], [[]], [9], {"a": 1}, 10**30):
            entry[:] = json.loads(whole)
            entry[at] = value
            if entry != json.loads(whole):
                file.write_text(json.dumps(content))
                outcome = Cache(file.parent, gather(flags(file.parent)), file.name).look_up(Input(Path("a.py"), "a.py"))
                known, refused = known + (outcome is not None), refused + (outcome is None)
    assert refused > 30
    assert known < 12
    assert run("check").stdout == first


def flags(folder: Path) -> dict[str, Any]:
    return {**NO_FLAGS, "config": None, "isolated": True, "no_cache": False, "cache_dir": str(folder)}


# ------------------------------------------------------------------------------------------------ the folder


def test_the_folder_is_left_out_by_git_and_by_backups(run, folder: Path) -> None:
    (folder / "a.py").write_text("x = 1\n")
    run("check", fake=False)
    cache = folder.parent / ".accumlint_cache"
    assert (cache / ".gitignore").read_text().endswith("*\n")
    assert (cache / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    subprocess.run(["git", "init", "-q", folder.parent], check=True)
    status = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=folder.parent, check=True, capture_output=True, text=True
    )
    assert ".accumlint_cache" not in status.stdout


def test_where_it_is(run, folder: Path) -> None:
    (folder / "a.py").write_text("x = 1\n")
    (folder / "pyproject.toml").write_text('[tool.accumlint]\ncache-dir = "kept/here"\n')
    run("check", fake=False)
    assert (folder / "kept/here/CACHEDIR.TAG").exists()
    run("check", fake=False, env={"ACCUMLINT_CACHE_DIR": "by_variable"})
    assert (folder / "by_variable/CACHEDIR.TAG").exists()
    run("check", "--cache-dir", "by_flag", fake=False, env={"ACCUMLINT_CACHE_DIR": "not_there"})
    assert (folder / "by_flag/CACHEDIR.TAG").exists()
    assert not (folder / "not_there").exists()


@pytest.mark.parametrize("leading_out", ["../out", "/tmp/accumlint-leads-out"])
def test_a_configuration_does_not_lead_out_of_its_project(run, folder: Path, leading_out: str) -> None:
    (folder / "a.py").write_text("x = 1\n")
    (folder / "pyproject.toml").write_text(f'[tool.accumlint]\ncache-dir = "{leading_out}"\n')
    done = run("check", fake=False)
    assert done.returncode == 2
    assert "is not inside of" in done.stderr
    assert not (folder / leading_out).exists()


def test_a_folder_that_cannot_be_written_is_no_error(run, folder: Path) -> None:
    (folder / "a.py").write_text("acc201_safe(1)\n")
    (folder / "file").write_text("")
    done = run("check", "--cache-dir", "file/cache")
    assert (done.returncode, done.stderr) == (1, "")


def test_clean_removes_the_cache_and_nothing_else(run, folder: Path) -> None:
    (folder / "a.py").write_text("x = 1\n")
    run("check", fake=False)
    cache = folder.parent / ".accumlint_cache"
    assert cache.exists()
    assert run("clean", fake=False).returncode == 0
    assert not cache.exists()
    assert run("clean", fake=False).returncode == 0
    mine = folder / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("")
    done = run("clean", "--cache-dir", "mine", fake=False)
    assert done.returncode == 2
    assert (mine / "thesis.txt").exists()
    (folder / "link").symlink_to(cache)
    run("check", fake=False)
    assert run("clean", "--cache-dir", "link", fake=False).returncode == 2
    assert cache.exists()


def test_two_runs_at_once_keep_both_results(run, folder: Path) -> None:
    """Each starts before the other has written."""
    command = [sys.executable, "-m", "accumlint", "check", "--exit-zero", "--cache-dir", "both"]
    for name in ("one", "two"):
        (folder / name).mkdir()
        for number in range(6):
            (folder / name / f"{number}.py").write_text(LOOP + f"\nx = {number}\n")
    started = [subprocess.Popen([*command, name], cwd=folder, stdout=subprocess.DEVNULL) for name in ("one", "two")]
    assert [each.wait(120) for each in started] == [0, 0]
    (file,) = (folder / "both").glob("*.json")
    entries = json.loads(file.read_text())["entries"]
    assert len(entries) >= 6  # whole, whoever was last; the next run adds what is missing
    run("check", "--exit-zero", "--cache-dir", "both", fake=False)
    assert len(json.loads(file.read_text())["entries"]) == 12


# ---------------------------------------------------------------------------------------------- its content


def full_result() -> Result:
    span = Span(3, 4, 5, 6)
    measure = Measure(Check.EXECUTED, 2e-16, 1e-12, None, ((2, 5), (0, 3)), 7, "torch")
    discharged = frozenset({Check.PROVED, Check.EXECUTED})
    certificate = Certificate(discharged, assumptions=("a",), missing=("b",), measures=(measure,), notes=("c",))
    fix = Fix("Weight", (Edit(span, "x\ny"), Edit(Span(9, 0, 9, 0), "")), certificate, "precount")
    finding = Finding(
        "ACC101", "equal", "m", "f.py", span, "h", "proved", (("r", span), ("q", None)), ("z",), fix, "", {"k": "v"}
    )
    second = Finding("ACC201", "clip", "m", "f.py", span, fix=fix)
    return Result(
        (finding, second),
        (Loop(span, LoopStatus.NOT_REACHED, "why"),),
        (Problem("f.py", "m", 3, 4),),
        2,
    )


def test_a_result_comes_back_as_it_was() -> None:
    result = full_result()
    back = load(json.loads(json.dumps(dump(result))))
    assert back == result
    assert back.findings[0].fix is back.findings[1].fix


def test_nothing_but_a_result_comes_back() -> None:
    """Every value of the data is replaced by one of another kind: refused, or a result that is one by its types."""
    data = json.loads(json.dumps(dump(full_result())))
    refused = 0
    for path in _paths(data):
        for other in ("text", 7, None, [], {"a": []}, 1.5, True):
            changed = json.loads(json.dumps(data))
            at = changed
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = other
            try:
                back = load(changed)
            except CorruptError:
                refused += 1
            else:
                assert load(json.loads(json.dumps(dump(back)))) == back
    assert refused > 100


def _paths(data: object, above: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for at, each in enumerate(data if isinstance(data, list) else ()):
        found += [(*above, at), *_paths(each, (*above, at))]
    return found
