"""`accumlint completion`: the script that makes a shell complete the command line."""

from __future__ import annotations

import click

from accumlint.cli.errors import CLEAN, UsageError

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Print a shell's completion script.")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print the script that makes SHELL complete commands, flags, rule codes and files.

    \b
    bash: eval "$(accumlint completion bash)" in ~/.bashrc
    zsh:  eval "$(accumlint completion zsh)" in ~/.zshrc, below compinit
    fish: accumlint completion fish > ~/.config/fish/completions/accumlint.fish
    """
    from click.shell_completion import get_completion_class

    from accumlint.cli.main import cli

    complete = get_completion_class(shell)
    if complete is None:
        raise UsageError(f"completion: this version of click knows no {shell}")
    # `source` of the class for bash calls bash to ask for its version, which need not be installed here.
    made = complete(cli, {}, "accumlint", "_ACCUMLINT_COMPLETE")
    click.echo(made.source_template % made.source_vars(), nl=False)
    return CLEAN
