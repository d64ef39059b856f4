"""The public library: check and repair source text, bytes and paths. Its names are exported by `accumlint` itself.

    import accumlint

    for finding in accumlint.check_source(text).findings:
        print(finding.span.line, finding.code, finding.message)

Nothing here imports or runs the code that is checked. Results are frozen dataclasses; bad input never raises, it is in
`problems`. What is reported and repaired is what the command line reports and repairs under the same settings, noqa
comments included. Lines count from 1, columns from 0, in code points, as in `ast`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Generic, TypeVar

from accumlint.cli.checking import check_text
from accumlint.cli.errors import UsageError
from accumlint.cli.fixing import repair
from accumlint.cli.inputs import find_inputs
from accumlint.cli.settings import NO_FLAGS, Settings, gather
from accumlint.findings import Edit, Finding, Fix, Loop, LoopStatus, Problem
from accumlint.reading.program import Span
from accumlint.repair.certificate import Applicability, Certificate, Check
from accumlint.report.model import CheckedFile
from accumlint.source.notebook import NotPythonError, read_bytes, read_text
from accumlint.source.text import SourceError, SourceText

Source = TypeVar("Source", str, bytes)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One checked file: what was found, every training loop with its status, and what could not be checked."""

    filename: str
    findings: tuple[Finding, ...] = ()
    loops: tuple[Loop, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class RepairResult(Generic[Source]):
    """One repaired source, of the type that was given; the original one where nothing was applied.

    `result` is the check of the repaired source: its findings are those that are left. `fixed` counts the findings
    that are gone, by code.
    """

    source: Source
    changed: bool
    result: CheckResult
    fixed: Mapping[str, int] = field(default_factory=dict)


def check_source(
    source: str | bytes,
    filename: str = "<string>",
    *,
    select: Sequence[str] = (),
    extend_select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    repairs: bool = False,
    confirm: bool = False,
    strategy: str | None = None,
    config: str | PathLike[str] | None = None,
) -> CheckResult:
    """Check Python source, or a notebook if `filename` ends in .ipynb.

    `select`, `extend_select` and `ignore` hold codes or prefixes, as on the command line. With `repairs` each finding
    carries its repair in `fix`, or the reason why there is none in `unfixable`; with `confirm` repairs are executed
    with torch, in a subprocess. No configuration is read unless `config` names a pyproject.toml.

    Raises ValueError for an unknown code, strategy or configuration key.
    """
    flags = _selection(select, extend_select, ignore)
    settings = _settings(**flags, confirm=confirm, strategy=strategy, config=config, paths=(filename,))
    try:
        text = _read(source, filename)
    except SourceError as error:
        return _unreadable(filename, error)
    return _result(check_text(text, filename, Path(filename), _with_repairs(settings, repairs or confirm)))


def check_paths(
    paths: Iterable[str | PathLike[str]],
    *,
    select: Sequence[str] = (),
    extend_select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    repairs: bool = False,
    confirm: bool = False,
    strategy: str | None = None,
    config: str | PathLike[str] | None = None,
) -> Iterator[CheckResult]:
    """Check files and folders, one result a file, in the order of their names and as they are checked.

    Files are chosen as on the command line (.gitignore and the usual excludes hold). A path that does not exist or
    cannot be looked at is a result with a problem. Raises ValueError as `check_source` does.
    """
    flags = _selection(select, extend_select, ignore)
    given = tuple(fspath(path) for path in paths)
    settings = _settings(**flags, confirm=confirm, strategy=strategy, config=config, paths=given)
    return _check_all(_with_repairs(settings, repairs or confirm)) if given else iter(())


def repair_source(
    source: Source,
    filename: str = "<string>",
    *,
    select: Sequence[str] = (),
    extend_select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    unsafe: bool = False,
    require: str | None = None,
    strategy: str | None = None,
    config: str | PathLike[str] | None = None,
) -> RepairResult[Source]:
    """Apply repairs, as `accumlint check --fix` does: the safe ones, with `unsafe` the others too.

    `require` applies what is established at least so far ("proved", "executed" or "leaf-checked") instead of what is
    safe. Bytes keep their encoding, byte order mark and line ends. Raises ValueError as `check_source` does.
    """
    flags = _selection(select, extend_select, ignore)
    options = {"fix": True, "unsafe_fixes": unsafe or None, "require": require, "strategy": strategy}
    settings = _settings(**flags, **options, config=config, paths=(filename,))
    try:
        text = _read(source, filename)
    except SourceError as error:
        return RepairResult(source, False, _unreadable(filename, error))
    repaired = repair(text, filename, Path(filename), settings)
    changed = repaired.source.data != text.data
    data = repaired.source.data
    new = source if not changed else data if isinstance(source, bytes) else _decoded(repaired.source)
    return RepairResult(new, changed, _result(repaired.file), dict(repaired.file.fixed))


def _check_all(settings: Settings) -> Iterator[CheckResult]:
    inputs = find_inputs(settings)
    for problem in inputs.problems:
        yield CheckResult(problem.filename, problems=(problem,))
    for found in inputs.files:
        try:
            yield _result(check_text(found.read(), found.shown, found.path, settings))
        except NotPythonError:
            continue
        except SourceError as error:
            yield _unreadable(found.shown, error)


def _selection(select: Sequence[str], extend_select: Sequence[str], ignore: Sequence[str]) -> dict[str, Any]:
    given = {"select": select, "extend_select": extend_select, "ignore": ignore}
    for name, codes in given.items():
        if isinstance(codes, str):
            raise ValueError(f'{name} is a sequence of codes: ["{codes}"], not "{codes}"')
    return {name: tuple(codes) for name, codes in given.items()}


def _settings(*, config: str | PathLike[str] | None, **given: Any) -> Settings:
    """The settings of `accumlint check` with these flags; every other flag is as if it were not given."""
    from accumlint.cli.config_keys import REQUIREMENTS, STRATEGIES

    for name, choices in (("strategy", STRATEGIES), ("require", REQUIREMENTS)):
        if given.get(name) not in (None, *choices):
            raise ValueError(f"{name} is one of {', '.join(choices)}, not {given[name]!r}")
    flags: dict[str, Any] = {**NO_FLAGS, **given, "config": None if config is None else fspath(config)}
    flags["isolated"] = config is None
    try:
        return gather(flags)
    except UsageError as error:
        raise ValueError(str(error)) from None


def _with_repairs(settings: Settings, repairs: bool) -> Settings:
    """Plan repairs or do not: on the command line the output format decides that."""
    from dataclasses import replace

    return replace(settings, output_format="json" if repairs else "concise", fix=False)


def _read(source: str | bytes, filename: str) -> SourceText:
    return read_bytes(filename, source) if isinstance(source, bytes) else read_text(filename, source)


def _decoded(source: SourceText) -> str:
    return source.data.decode("utf-8-sig" if source.bom else source.encoding)


def _unreadable(filename: str, error: SourceError) -> CheckResult:
    return CheckResult(filename, problems=(Problem(filename, error.message, error.line, error.column),))


def _result(file: CheckedFile) -> CheckResult:
    return CheckResult(file.filename, tuple(file.findings), tuple(file.loops), tuple(file.problems))


__all__ = [
    "Applicability",
    "Certificate",
    "Check",
    "CheckResult",
    "Edit",
    "Finding",
    "Fix",
    "Loop",
    "LoopStatus",
    "Problem",
    "RepairResult",
    "Span",
    "check_paths",
    "check_source",
    "repair_source",
]
