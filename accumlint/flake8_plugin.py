"""The flake8 plugin: the same findings as `accumlint check`, through flake8's selection, noqa and output.

A file without a training loop costs a search for a few words: libcst is imported only for the others, torch never.
Which codes are reported is flake8's business (`select`, `extend-select`, `ignore`, `per-file-ignores`); opt-in rules
are ignored unless they are selected. Repairs are `accumlint check --fix`'s: flake8 has none.
"""

from __future__ import annotations

import ast
import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from accumlint import __version__

if TYPE_CHECKING:
    from accumlint.reading.contracts import LossContract

Report = tuple[int, int, str, type[Any]]


class OptionManager(Protocol):
    """What is used of flake8's own."""

    def extend_default_ignore(self, error_codes: list[str]) -> None: ...

    def add_option(self, *args: Any, **kwargs: Any) -> None: ...


class Plugin:
    """What flake8 makes for each file."""

    name = "accumlint"
    version = __version__
    _hints: ClassVar[bool] = False  # flake8 hands its options to the class
    _config: ClassVar[str] = ""
    _contracts: ClassVar[tuple[LossContract, ...] | None] = None  # read when the first file needs them

    def __init__(self, tree: ast.AST, filename: str, lines: list[str]) -> None:
        self._tree = tree if isinstance(tree, ast.Module) else None
        self._filename = filename
        self._lines = lines

    @staticmethod
    def add_options(option_manager: OptionManager) -> None:
        """Register the plugin's option, and the opt-in rules as ignored by default."""
        from accumlint.rules.registry import all_rules

        off = [rule.code for rule in all_rules() if rule.state != "on"]
        option_manager.extend_default_ignore(off)
        option_manager.add_option(
            "--accumlint-hints",
            action="store_true",
            default=False,
            parse_from_config=True,
            help="Add the shortest cure to each message of accumlint (ACC).",
        )
        option_manager.add_option(
            "--accumlint-config",
            metavar="FILE",
            default="",
            parse_from_config=True,
            normalize_paths=True,
            help="The pyproject.toml whose loss-contracts hold, instead of the nearest one of the working folder.",
        )

    @classmethod
    def parse_options(cls, options: Namespace) -> None:
        cls._hints = bool(options.accumlint_hints)
        cls._config = options.accumlint_config or ""
        cls._contracts = None

    def run(self) -> Iterator[Report]:
        """The findings: line from 1, column from 0. Raises flake8's ExecutionError for a fault of accumlint."""
        from accumlint.reading.prefilter import may_train

        text = "".join(self._lines)
        data = text.encode("utf-8", "surrogatepass")
        from accumlint.analysis import Options, check_source, imports_training

        if not may_train(data) and not imports_training(self._filename, data):
            return
        from accumlint.rules.registry import all_rules
        from accumlint.source.text import SourceText

        source = SourceText(self._filename, data, text)
        codes = frozenset(rule.code for rule in all_rules())
        contracts = self._loss_contracts()
        try:
            report = check_source(source, Options(codes=codes, contracts=contracts), self._tree)
        except Exception as error:
            raise _fault(self._filename, f"{type(error).__name__}: {error}") from error
        for problem in report.problems:
            if problem.internal:
                raise _fault(self._filename, problem.message)
            print(f"accumlint: {self._filename}:{problem.line}: {problem.message}", file=sys.stderr)
        for finding in sorted(report.findings, key=lambda finding: (finding.span, finding.code)):
            hint = f" (help: {finding.hint})" if self._hints and finding.hint else ""
            yield finding.span.line, finding.span.column, f"{finding.code} {finding.message}{hint}", type(self)

    @classmethod
    def _loss_contracts(cls) -> tuple[LossContract, ...]:
        """Those of the configuration of `accumlint check`: all that decides about findings and flake8 knows not of."""
        if cls._contracts is None:
            from accumlint.cli import config
            from accumlint.cli.errors import UsageError
            from accumlint.cli.rules import known_codes

            try:
                path = Path(cls._config) if cls._config else config.find(Path.cwd())
                read = config.read(path, known_codes()) if path else config.Configuration()
            except UsageError as error:
                raise _execution_error(f"accumlint: {error}") from None
            cls._contracts = read.get("loss-contracts", ())
        return cls._contracts


def _fault(filename: str, message: str) -> Exception:
    """What flake8 prints in one line before it stops; any other exception it shows as a traceback."""
    return _execution_error(f"{filename}: accumlint: internal error: {message}; please report this")


def _execution_error(message: str) -> Exception:
    error: Exception = import_module("flake8.exceptions").ExecutionError(message)
    return error
