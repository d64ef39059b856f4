"""The command group. A command is a file in `commands/` with a `command`; it is imported when it is called."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import NoReturn

import click

from accumlint import __version__
from accumlint.cli import commands
from accumlint.cli.errors import ERROR, UsageError, describe_fault, nearest


class Commands(click.Group):
    """Commands by the names of the files in `commands/`; dropping a file in adds one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name for module in iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{commands.__name__}.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        is_word = bool(args) and not args[0].startswith("-") and not ctx.resilient_parsing  # a shell completes it
        if is_word and self.get_command(ctx, args[0]) is None:
            hint = nearest(args[0], self.list_commands(ctx))
            if os.path.exists(args[0]):
                hint = f'; did you mean "accumlint check {args[0]}"?'
            raise UsageError(f'no such command "{args[0]}"{hint}')
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="accumlint", message="%(prog)s %(version)s")
def cli() -> None:
    """Find and repair wrong gradient accumulation in PyTorch training code, and prove each repair."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and exit: 0 clean, 1 findings, 2 error. No traceback is shown, unless ACCUMLINT_DEBUG=1."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """The exit code of a command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files and lines of source may hold what it cannot encode
            stream.reconfigure(errors="backslashreplace")
    try:
        status = cli.main(arguments, prog_name="accumlint", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except UsageError as error:
        _say(f"error: {error}")
    except click.UsageError as error:
        _show(error)
    except click.ClickException as error:
        _say(f"error: {error.format_message()}")
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (the interpreter flushes it on its way out)
        return ERROR
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return 130
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        _say(f"error: {name}{error.strerror or error}")
    except Exception as error:  # the last fence: a fault of ours is said as such and never looks like a clean run
        _say(f"internal error: {describe_fault(error)}")
    return ERROR


def _show(error: click.UsageError) -> None:
    """One line, as for any other mistake; `accumlint` without a command shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    command = error.ctx.command_path if error.ctx else "accumlint"
    _say(f"error: {error.format_message().rstrip('.')}; see {command} --help")


def _say(text: str) -> None:
    click.echo(text, err=True)
