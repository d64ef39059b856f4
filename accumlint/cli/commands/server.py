"""`accumlint server`: the language server for editors."""

from __future__ import annotations

import sys

import click

from accumlint.cli.errors import CLEAN, FINDINGS, UsageError


@click.command("server", short_help="Run the language server, for editors.")
@click.option("--stdio", is_flag=True, help="Speak over stdin and stdout, as it does anyway.")
def command(stdio: bool) -> int:
    """Run the language server over stdin and stdout. An editor starts it: see docs/editors.md for its settings.

    It checks the text that is in the editor, under the configuration of its folder. It never imports or runs it.
    """
    try:
        from accumlint.server.server import serve
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("pygls", "lsprotocol", "cattrs", "attrs"):
            raise
        raise UsageError("server: pygls is not installed: pip install 'accumlint[lsp]'") from None
    if sys.stdin.isatty():
        click.echo(
            "accumlint server speaks the language server protocol; an editor starts it. Ctrl-C ends it.", err=True
        )
    return CLEAN if serve() else FINDINGS  # 1 is what the protocol has for an editor that just went away
