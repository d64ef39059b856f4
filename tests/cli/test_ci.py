"""What docs/ci.md offers: the composite action, its steps run as GitHub runs them, and the GitLab job.

pip is replaced: it records what it should install and gives the environment the accumlint under test. Everything else
in the steps is run as it stands in action.yml.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash")

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
CLIP = """import torch


def train(model, loader, optimizer):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        torch.nn.functional.mse_loss(model(x), y, reduction="sum").backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
PYTHON = """#!/bin/sh
# `-m venv DIR` makes DIR/bin/python a copy of this; its `-m pip` makes DIR/bin/accumlint.
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip install "*) printf '%s\\n' "$@" > "$RUNNER_TEMP/pip"
    printf '#!/bin/sh\\nexec {python} -m accumlint "$@"\\n' > "$(dirname "$0")/accumlint"
    chmod +x "$(dirname "$0")/accumlint" ;;
  *) exit 99 ;;
esac
"""


class Runner:
    """Runs the steps of the action in a folder, as `shell: bash` is defined: fail on the first error, in pipes too."""

    def __init__(self, folder: Path, temporary: Path) -> None:
        self.folder, self.temporary = folder, temporary
        self.python = temporary / "python"
        self.python.write_text(PYTHON.replace("{python}", sys.executable))
        self.python.chmod(0o755)
        self.output = ""

    def __call__(self, **inputs: str) -> int:
        given = {name.replace("-", "_"): value.get("default", "") for name, value in ACTION["inputs"].items()}
        known = {"steps.python.outputs.python-path": str(self.python)}
        known |= {f"inputs.{name.replace('_', '-')}": value for name, value in {**given, **inputs}.items()}
        files = {name: self.temporary / name for name in ("GITHUB_ENV", "GITHUB_OUTPUT")}
        for path in files.values():
            path.write_text("")
        code = 0
        for step in ACTION["runs"]["steps"]:
            if "run" not in step:
                continue
            set_before = dict(line.split("=", 1) for line in files["GITHUB_ENV"].read_text().splitlines())
            env = {
                **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "RUNNER_"))},
                **{name: str(path) for name, path in files.items()},
                "GITHUB_ACTION_PATH": str(ROOT),
                "RUNNER_TEMP": str(self.temporary),
                **set_before,
                **{name: EXPRESSION.sub(lambda found: known[found[1]], value) for name, value in step["env"].items()},
            }
            script = self.temporary / "step.sh"
            script.write_text(step["run"])
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
            done = subprocess.run(
                command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=120, check=False
            )
            self.output += done.stdout + done.stderr
            code = done.returncode
            if code:
                break
        self.outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        return code


@pytest.fixture
def action(folder: Path, tmp_path: Path) -> Runner:
    temporary = tmp_path / "runner temp"  # with a space, as a user's name may have one
    temporary.mkdir()
    return Runner(folder, temporary)


def test_the_action_is_as_github_wants_it() -> None:
    """Of the metadata syntax: the keys, a shell for each script, expressions that lead somewhere, a known branding."""
    assert set(ACTION) == {"name", "description", "author", "branding", "inputs", "outputs", "runs"}
    assert ACTION["branding"] == {"icon": "layers", "color": "orange"}  # of Feather's icons and GitHub's eight colours
    assert ACTION["runs"]["using"] == "composite"
    steps = ACTION["runs"]["steps"]
    assert all(("run" in step) != ("uses" in step) for step in steps)
    assert all(step["shell"] == "bash" for step in steps if "run" in step)
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
    assert all(set(value) <= {"description", "default", "required"} for value in ACTION["inputs"].values())
    names = {step["id"] for step in steps if "id" in step}
    text = (ROOT / "action.yml").read_text()
    for expression in EXPRESSION.findall(text):
        kind, name, *_ = expression.split(".")
        assert name in (ACTION["inputs"] if kind == "inputs" else names), expression
    # An expression inside a script would paste an input into the shell: only `env` may hold one.
    assert not any(EXPRESSION.search(step["run"]) for step in steps if "run" in step)
    assert all(f"inputs.{name} " in text for name in ACTION["inputs"])


def test_annotations(action: Runner, folder: Path) -> None:
    (folder / "train.py").write_text(CLIP)
    assert action() == 1
    assert action.outputs == {"exit-code": "1"}
    assert "::error title=accumlint (ACC201),file=train.py,line=8," in action.output
    assert (action.temporary / "pip").read_text().splitlines()[-1] == str(ROOT)


def test_a_clean_checkout_and_a_release(action: Runner, folder: Path) -> None:
    (folder / "train.py").write_text("x = 1\n")
    assert action(version="0.1.0") == 0
    assert action.outputs == {"exit-code": "0"}
    assert (action.temporary / "pip").read_text().splitlines()[-1] == "accumlint==0.1.0"


def test_sarif_and_arguments(action: Runner, folder: Path) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (folder / name).write_text(CLIP)
    assert action(paths="a.py b.py", args="--exit-zero --select ACC2", sarif_file="accumlint.sarif") == 0
    results = json.loads((folder / "accumlint.sarif").read_text())["runs"][0]["results"]
    found = [
        (result["ruleId"], result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]) for result in results
    ]
    assert found == [("ACC201", "a.py"), ("ACC201", "b.py")]


def test_bad_arguments_fail_the_job(action: Runner, folder: Path) -> None:
    assert action(args="--sellect ACC1") == 2
    assert action.outputs == {"exit-code": "2"}
    assert action(paths="$(touch ran) `touch ran` ; touch ran") == 2
    assert not (folder / "ran").exists()


def blocks() -> list[Any]:
    found = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)]
    assert found
    return found


def test_the_page_uses_inputs_that_are_there() -> None:
    jobs = [block["jobs"]["accumlint"] for block in blocks() if "jobs" in block]
    used = [step for job in jobs for step in job["steps"] if "/accumlint@" in step["uses"]]
    assert len(used) >= 2
    assert all(set(step["with"]) <= set(ACTION["inputs"]) for step in used)
    uploads = [step for job in jobs for step in job["steps"] if "upload-sarif" in step["uses"]]
    (written,) = [step["with"]["sarif-file"] for step in used if "sarif-file" in step["with"]]
    assert [step["with"]["sarif_file"] for step in uploads] == [written]
    assert all(step["if"] == "always()" for step in uploads)
    allowed = [job.get("permissions") for job in jobs if any(step in uploads for step in job["steps"])]
    assert allowed == [{"contents": "read", "security-events": "write"}]


def test_the_job_for_gitlab(folder: Path) -> None:
    (folder / "train.py").write_text(CLIP)
    (job,) = [block["accumlint"] for block in blocks() if "accumlint" in block]
    install, check = job["script"]
    assert install == "pip install accumlint"
    command = check.replace("accumlint", f"{sys.executable} -m accumlint", 1)
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    (issue, *_) = json.loads((folder / job["artifacts"]["reports"]["codequality"]).read_text())
    assert {"description", "check_name", "fingerprint", "severity", "location"} <= set(issue)
    assert issue["location"]["path"] == "train.py"
    assert job["artifacts"]["when"] == "always"
