"""`accumlint clean`: remove the cache."""

from __future__ import annotations

from pathlib import Path

import click

from accumlint.cli.errors import CLEAN, UsageError


@click.command("clean", short_help="Remove the cache.")
@click.option("--cache-dir", metavar="FOLDER", help="The folder of the cache, as for check.")
@click.option("--isolated", is_flag=True, help="Read no configuration.")
@click.option("--config", metavar="FILE", help="Read this pyproject.toml instead of the nearest one.")
def command(cache_dir: str | None, isolated: bool, config: str | None) -> int:
    """Remove the cache of the project that the current folder is in.

    A folder that accumlint did not make as a cache is left alone.
    """
    import shutil

    from accumlint.cli import config as configuration
    from accumlint.cli.cache import is_cache
    from accumlint.cli.rules import known_codes
    from accumlint.cli.settings import cache_folder

    file = Path(config) if config else None if isolated else configuration.find(Path.cwd())
    found = configuration.read(file, known_codes()) if file else configuration.Configuration()
    folder = cache_folder(cache_dir, found)
    if not folder.exists():
        click.echo(f"no cache at {folder}", err=True)
        return CLEAN
    if folder.is_symlink() or not is_cache(folder):
        raise UsageError(f"clean: {folder} is no cache of accumlint; it is left as it is")
    shutil.rmtree(folder)
    click.echo(f"removed the cache at {folder}", err=True)
    return CLEAN
