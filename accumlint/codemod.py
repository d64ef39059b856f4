"""The repairs as a libcst codemod: `python -m libcst.tool codemod -x accumlint.codemod.WeightedAccumulation PATH`.

Without `-x` libcst looks only into the modules of a .libcst.codemod.yaml; with `modules: [accumlint]` there, the
command is called `codemod.WeightedAccumulation`. libcst formats what it changes with black unless `--no-format` is
given.

It changes what `accumlint check --fix` changes, under the same pyproject.toml and noqa comments. What is found and not
repaired is a warning.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import libcst
from libcst.codemod import CodemodCommand, CodemodContext, SkipFile

from accumlint.api import repair_source
from accumlint.cli import config
from accumlint.cli.config_keys import REQUIREMENTS, STRATEGIES


class WeightedAccumulation(CodemodCommand):
    """Makes the update of each accumulation window the full-batch update, where that is established."""

    DESCRIPTION = "Repair wrong gradient accumulation in PyTorch training loops (accumlint check --fix)."

    def __init__(
        self,
        context: CodemodContext,
        strategy: str | None = None,
        require: str | None = None,
        unsafe_fixes: bool = False,
    ) -> None:
        super().__init__(context)
        self._strategy = strategy
        self._require = require
        self._unsafe = unsafe_fixes

    @staticmethod
    def add_args(arg_parser: ArgumentParser) -> None:
        """Add the command's own arguments, named as those of `accumlint check`."""
        arg_parser.add_argument("--strategy", choices=STRATEGIES, help="how weights are repaired (default: auto)")
        arg_parser.add_argument("--require", choices=REQUIREMENTS, help="apply what is established at least so far")
        arg_parser.add_argument("--unsafe-fixes", action="store_true", help="apply the unsafe repairs too")

    def transform_module_impl(self, tree: libcst.Module) -> libcst.Module:
        """The repaired module. Raises SkipFile, which libcst reports, for a file that cannot be checked."""
        filename = self.context.filename or "<string>"
        repaired = repair_source(
            tree.bytes,
            filename,
            unsafe=self._unsafe,
            require=self._require,
            strategy=self._strategy,
            config=config.find(Path(filename).absolute().parent),
        )
        for problem in repaired.result.problems:
            message = f"{problem.filename}:{problem.line}: {problem.message}"
            if problem.internal:
                raise RuntimeError(message)
            raise SkipFile(message)
        for finding in repaired.result.findings:
            place = f"{finding.filename}:{finding.span.line}:{finding.span.column + 1}"
            why = f" (not repaired: {finding.unfixable})" if finding.unfixable else ""
            self.warn(f"{place}: {finding.code} {finding.message}{why}")
        return libcst.parse_module(repaired.source) if repaired.changed else tree
