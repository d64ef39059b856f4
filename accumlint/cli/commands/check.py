"""`accumlint check`: the main job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from accumlint.cli.complete import codes
from accumlint.cli.config_keys import REQUIREMENTS, STRATEGIES
from accumlint.cli.sections import Sectioned
from accumlint.report.formats import FORMATS

SECTIONS = {
    "Repairs": ("fix", "unsafe_fixes", "diff", "confirm", "strategy", "require"),
    "Rule selection": ("select", "extend_select", "ignore", "per_file_ignores"),
    "Known findings": ("ignore_noqa", "add_noqa", "baseline", "write_baseline"),
    "File selection": ("exclude", "extend_exclude", "force_exclude", "respect_gitignore", "stdin_filename"),
    "Output": (
        "output_format",
        "output_file",
        "statistics",
        "show_files",
        "show_settings",
        "quiet",
        "verbose",
        "color",
    ),
    "Configuration": ("config", "isolated"),
}
EXAMPLES = """\b
Examples:
  accumlint check src/ train.py                 report
  accumlint check --diff src/                   show what would be repaired, and how far that is established
  accumlint check --fix src/                    repair what is safe
  accumlint check --select ACC1 --ignore ACC102 --output-format concise
  accumlint check --baseline known.json --write-baseline
"""


def _codes(flag: str, text: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    help = f"{text} Separated by commas."
    return click.option(flag, metavar="CODES", multiple=True, default=None, help=help, shell_complete=codes)


@click.command(
    "check", cls=Sectioned, sections=SECTIONS, epilog=EXAMPLES, short_help="Check training code, and repair it."
)
@click.argument("paths", nargs=-1, type=click.Path())
@_codes("--select", "Report these rules (codes or prefixes, or ALL) instead of the default ones.")
@_codes("--extend-select", "Report these rules as well.")
@_codes("--ignore", "Do not report these rules.")
@click.option("--per-file-ignores", metavar="PATTERN:CODE", help="Rules not to report in matching files.")
@click.option("--exclude", metavar="PATTERNS", multiple=True, help="Leave these out instead of the usual ones.")
@click.option("--extend-exclude", metavar="PATTERNS", multiple=True, help="Leave these out as well.")
@click.option("--force-exclude/--no-force-exclude", default=None, help="Exclude also what is named as a path.")
@click.option("--respect-gitignore/--no-respect-gitignore", default=None, help="Leave out what .gitignore does.")
@click.option("--output-format", type=click.Choice(list(FORMATS)), help="How findings are printed.  [default: full]")
@click.option("-o", "--output-file", metavar="FILE", help="Write the report to a file instead of to stdout.")
@click.option("--fix/--no-fix", default=None, help="Apply the safe repairs.")
@click.option("--unsafe-fixes/--no-unsafe-fixes", default=None, help="With --fix and --diff: the other repairs too.")
@click.option("--diff", is_flag=True, help="Print what --fix would change; change nothing.")
@click.option("--confirm", is_flag=True, help="Execute the repairs with torch, as --fix and --diff do.")
@click.option("--strategy", type=click.Choice(STRATEGIES), help="How weights are repaired.  [default: auto]")
@click.option("--require", type=click.Choice(REQUIREMENTS), help="Apply what is established so far, not what is safe.")
@click.option("--isolated", is_flag=True, help="Read no configuration.")
@click.option("--config", metavar="FILE", help="Read this pyproject.toml instead of the nearest one.")
@click.option("-e", "--exit-zero", is_flag=True, help="Exit with 0 even with findings.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if something was repaired.")
@click.option("--statistics", is_flag=True, help="Print how often each rule was broken.")
@click.option("--show-files", is_flag=True, help="Print the files that would be checked.")
@click.option("--show-settings", is_flag=True, help="Print the settings that would be used.")
@click.option("--stdin-filename", metavar="FILE", help="The name of what is read from stdin (path `-`).")
@click.option("--ignore-noqa", is_flag=True, help="Report what noqa comments suppress, too; still never repair it.")
@click.option("--add-noqa", is_flag=True, help="Add a noqa comment to each line with a finding.")
@click.option("--baseline", metavar="FILE", help="Leave out the findings that this file lists.")
@click.option("--write-baseline", is_flag=True, help="Write the findings to the baseline file.")
@click.option("-j", "--jobs", type=click.IntRange(1), help="Processes; 1 starts none.  [default: as is worth it]")
@click.option("-n", "--no-cache", is_flag=True, help="Check everything anew, and keep nothing.")
@click.option("--cache-dir", metavar="FOLDER", help="Where results are kept.  [default: .accumlint_cache]")
@click.option("-q", "--quiet", count=True, help="Findings only; twice: nothing but errors.")
@click.option("-v", "--verbose", count=True, help="List the loops that were not reached, and why.")
@click.option("--color/--no-color", default=None, help="Colour or not, whatever the output is.")
def command(**flags: Any) -> int:
    """Check files, notebooks and folders (default: the current folder). Use `-` for stdin.

    Exit codes: 0 nothing found, 1 findings, 2 an error (wrong arguments, a file that cannot be read or parsed, a fault
    of accumlint itself; all other files are still checked).
    """
    from accumlint.cli.check import check

    return check(flags)
