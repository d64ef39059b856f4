"""`accumlint version`: the versions that a bug report needs."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import click

from accumlint import __version__


@click.command("version", short_help="Print the versions that a bug report needs.")
def command() -> None:
    """Print the version of accumlint, Python, and what it works with; nothing of it is imported."""
    click.echo(f"accumlint {__version__}")
    click.echo(f"python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for name in ("libcst", "click", "rich", "torch", "flake8", "pygls"):
        try:
            click.echo(f"{name} {version(name)}")
        except PackageNotFoundError:
            click.echo(f"{name} not installed")
