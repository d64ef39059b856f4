"""Test sessions on every Python that is installed: `nox`, or `nox -s core-3.12`, `nox -s without_torch`.

The full suite, with torch, is the README's test command. Apart from `frameworks` and `release-3.11`, these sessions
install no torch; what needs it is skipped.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
CORE = ("tests/source", "tests/apis", "tests/cases", "tests/report", "tests/rules", "tests/cli", "tests/api")
NEEDED = (
    "pytest>=8", "pytest-xdist>=3.5", "hypothesis>=6.100", "hypothesmith>=0.3.3", "jsonschema>=4.20", "pyyaml>=6",
)  # fmt: skip
OLDEST = ("click==8.1.0", "libcst==1.5.0", "pathspec==0.12.0", "rich==13.0.0")
RELEASED = {
    "3.10": (*OLDEST, "flake8==6.0.0", "pygls==2.0.0"),
    "3.11": ("flake8", "pygls", "torch", "numpy", "-c", "constraints.txt"),
    "3.13": ("click", "libcst", "pathspec", "rich", "flake8", "pygls", "--upgrade"),
}
"""What a release is tried with: the oldest of all, the newest of all, and the torch of constraints.txt."""

nox.options.sessions = ("core", "without_torch", "oldest")
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True


def present(*folders: str) -> list[str]:
    """Those test folders that exist."""
    return [folder for folder in folders if Path(folder).is_dir()]


@nox.session(python=PYTHONS)
def core(session: nox.Session) -> None:
    """Everything between the bytes and the report, and the faces, without torch and without the harness."""
    session.install("-e", ".[flake8]", "pre-commit>=3.5", *NEEDED)
    session.run("pytest", *(session.posargs or present(*CORE)))


@nox.session
def without_torch(session: nox.Session) -> None:
    """The whole suite where only the run-time dependencies are there: no torch, no flake8, no pre-commit."""
    session.install("-e", ".", *NEEDED)
    session.run(
        "python", "-c", "import importlib.util as u; assert not u.find_spec('torch') and not u.find_spec('flake8')"
    )
    session.run("pytest", *(session.posargs or ("tests",)))


@nox.session(python="3.10")
def oldest(session: nox.Session) -> None:
    """The command line's tests with the oldest releases that pyproject.toml allows."""
    session.install("-e", ".", *NEEDED, *OLDEST)
    session.run("pytest", *(session.posargs or present("tests/source", "tests/cases", "tests/report", "tests/cli")))


@nox.session
def frameworks(session: nox.Session) -> None:
    """The harness against the real accelerate, lightning, transformers and, if it can be built, DeepSpeed."""
    session.install("-e", ".[frameworks]", *NEEDED, "-c", "constraints.txt")
    session.run("pip", "install", "-e", ".[deepspeed]", "-c", "constraints.txt", success_codes=[0, 1])
    session.run("pytest", "-n", "0", *(session.posargs or ("tests/frameworks",)))


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site into site/; a warning is an error."""
    session.install(".[docs]")
    session.run("zensical", "build", "--strict")


@nox.session
def wheel(session: nox.Session) -> None:
    """Build, install and use the wheel from outside of the repository."""
    session.install("build")
    folder = Path(session.create_tmp())
    shutil.rmtree(folder / "dist", ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(folder / "dist"))
    session.run("python", "-m", "pip", "install", "--force-reinstall", *map(str, (folder / "dist").glob("*.whl")))
    samples = Path("samples").resolve()
    session.chdir(folder)
    session.run("accumlint", "check", "--isolated", "--exit-zero", "--statistics", str(samples))


@nox.session(python=tuple(RELEASED))
def release(session: nox.Session) -> None:
    """What would be uploaded: the wheel that is built from the sdist, under the tests that the sdist holds."""
    session.install("build")
    folder = Path(session.create_tmp()).resolve()
    for name in ("dist", "unpacked", "path"):
        shutil.rmtree(folder / name, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(folder / "dist"))
    (sdist,), (built,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    shutil.unpack_archive(sdist, folder / "unpacked")
    (root,) = (folder / "unpacked").iterdir()
    assert isinstance(session.python, str)
    session.install(*NEEDED, *RELEASED[session.python])
    session.install("--force-reinstall", "--no-deps", str(built))
    # The tests import each other as `tests.NAME`; the folder of the sdist itself would hide the wheel.
    (folder / "path").mkdir()
    (folder / "path" / "tests").symlink_to(root / "tests", target_is_directory=True)
    session.chdir(root)
    environment = {"PYTHONPATH": str(folder / "path"), "PYTHONSAFEPATH": "1"}
    where = "import accumlint, sys; print(accumlint.__file__); sys.exit('site-packages' not in accumlint.__file__)"
    session.run("python", "-I", "-c", where)
    session.run("pip", "list")
    session.run("pytest", *(session.posargs or ("tests",)), env=environment)
