"""What the worker process does with a job: the same checks and repairs as the command line, on the editor's text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

from accumlint.cli import known
from accumlint.cli.checking import check_text
from accumlint.cli.editing import apply
from accumlint.cli.errors import UsageError, describe_fault
from accumlint.cli.fixing import Protection, repair
from accumlint.cli.settings import NO_FLAGS, Settings, gather
from accumlint.findings import Problem
from accumlint.reading.project import open_project
from accumlint.repair.certificate import Applicability
from accumlint.report.full import established_checks
from accumlint.report.model import UNUSED_SUPPRESSION, CheckedFile, Run
from accumlint.server.jobs import Answer, Change, Job, Offer, Task
from accumlint.source.discover import DEFAULT_EXCLUDE, Selection, discover
from accumlint.source.notebook import NotebookText, NotPythonError, read_bytes, read_text
from accumlint.source.suppressions import add_noqa
from accumlint.source.text import SourceError, SourceText, split_keeping_ends


def do(job: Job) -> Answer:
    """The answer to a job. Never raises: what goes wrong is a problem of the file, or an error of the configuration."""
    open_project.cache_clear()  # the files that this one imports may have changed since the last job
    try:
        settings = _settings(job)
        if _is_excluded(job.path, settings):
            return Answer()
        return _answer(job, settings, read_text(job.path, job.text))
    except UsageError as error:
        return Answer(error=str(error))
    except NotPythonError:
        return Answer()
    except SourceError as error:
        return _failed(job, Problem(job.path, error.message, error.line, error.column))
    except Exception as error:  # a fault of ours must not end the editor's session
        return _failed(job, Problem(job.path, describe_fault(error), internal=True))


def _failed(job: Job, problem: Problem) -> Answer:
    return Answer(CheckedFile(job.path, problems=[problem]))


def _settings(job: Job) -> Settings:
    """Those of `accumlint check PATH`; what the editor shows and applies is decided there, not by `fix` and `diff`."""
    settings = gather({**NO_FLAGS, "paths": (job.path,), "config": job.config})
    plans = job.task is not Task.CHECK
    return replace(settings, output_format="json" if plans else "concise", fix=False, confirm=plans and job.confirm)


def _is_excluded(path: str, settings: Settings) -> bool:
    selection = Selection(
        exclude=DEFAULT_EXCLUDE if settings.exclude is None else settings.exclude,
        extend_exclude=settings.extend_exclude,
        respect_gitignore=settings.respect_gitignore,
        force_exclude=True,
        root=settings.root,
    )
    return Path(path).is_file() and not discover([path], selection)


def _answer(job: Job, settings: Settings, source: SourceText) -> Answer:
    path = Path(job.path)
    if job.task is Task.FIX_ALL:
        repaired = repair(source, job.path, path, settings)
        return Answer(repaired.file, changes=tuple(changes(source, repaired.source)))
    file = check_text(source, job.path, path, settings)
    known.hide(Run([file]), settings, known.read(settings))
    return Answer(file, tuple(_offers(file, source)) if job.task is Task.REPAIRS else ())


def _offers(file: CheckedFile, source: SourceText) -> Iterator[Offer]:
    """Each repair once, safe ones first, then a noqa for each finding."""
    shared: dict[int, list[int]] = {}
    for index, finding in enumerate(file.findings):
        if finding.fix is not None:
            shared.setdefault(id(finding.fix), []).append(index)
    repairs = [_repair(file, source, indices) for indices in shared.values()]
    yield from sorted(repairs, key=lambda offer: (bool(offer.refused), offer.applicability is not Applicability.SAFE))
    for index, finding in enumerate(file.findings):
        text = add_noqa(source.text, {finding.span.line: [finding.code]})
        if text != source.text:
            yield _offer(source, text, f"Suppress {finding.code} here with a noqa comment", (index,))


def _repair(file: CheckedFile, source: SourceText, indices: list[int]) -> Offer:
    fix = file.findings[indices[0]].fix
    assert fix is not None
    applicability = _weakest(file, indices)
    codes = ", ".join(dict.fromkeys(file.findings[index].code for index in indices))
    established = established_checks(fix.certificate) or fix.certificate.notes[:1] or "nothing established"
    shown = established if isinstance(established, str) else established[0]
    title = f"{fix.message} ({codes}; {applicability.value}: {shown})"
    refused = _refusal(file, indices, source, applicability)
    if refused:
        return Offer(title, tuple(indices), applicability=applicability, refused=refused)
    return _offer(source, apply(source.text, [fix]), title, tuple(indices), applicability)


def _weakest(file: CheckedFile, indices: list[int]) -> Applicability:
    """A repair that several findings share is as safe as it is for the least of them."""
    order = (Applicability.DISPLAY, Applicability.UNSAFE, Applicability.SAFE)
    return min((file.applicability(file.findings[index]) or order[0] for index in indices), key=order.index)


def _refusal(file: CheckedFile, indices: list[int], source: SourceText, applicability: Applicability) -> str:
    finding = file.findings[indices[0]]
    assert finding.fix is not None
    if applicability is Applicability.DISPLAY:
        return f"only for display: {finding.fix.certificate.disagreement or 'it is not to be applied'}"
    protection = Protection(source.text)
    if finding.code != UNUSED_SUPPRESSION and any(protection.forbids(edit) for edit in finding.fix.edits):
        return "it would change a line that a noqa comment protects"
    return ""


def _offer(
    source: SourceText, text: str, title: str, findings: tuple[int, ...], applicability: Applicability | None = None
) -> Offer:
    try:
        new = read_bytes(source.filename, source.encode(text))
    except SourceError as error:
        return Offer(title, findings, applicability=applicability, refused=error.message)
    return Offer(title, findings, tuple(changes(source, new)), applicability)


def changes(old: SourceText, new: SourceText) -> Iterator[Change]:
    """The changed lines; of a notebook cell by cell."""
    if isinstance(old, NotebookText):
        before = {cell.number: cell.source for cell in old.cells}
        for number, text in old.edited_cells(new.text).items():
            yield from _changed_lines(number, before[number], text)
    else:
        yield from _changed_lines(None, old.text, new.text)


def _changed_lines(cell: int | None, old: str, new: str) -> Iterator[Change]:
    before, after = split_keeping_ends(old), split_keeping_ends(new)
    for tag, first, last, start, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Change(cell, first, last, "".join(after[start:end]))
