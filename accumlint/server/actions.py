"""Code actions: a repair for each finding, a noqa comment, and all safe repairs at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from lsprotocol import types
from pygls.capabilities import get_capability

from accumlint.repair.certificate import Applicability
from accumlint.report.full import underlined
from accumlint.server.diagnostics import SOURCE
from accumlint.server.documents import Snapshot
from accumlint.server.jobs import Answer, Change, Offer
from accumlint.server.positions import lines_of, location, text_edit
from accumlint.server.session import Session

FIX_ALL = "source.fixAll.accumlint"
KINDS = (types.CodeActionKind.QuickFix, FIX_ALL)


async def code_actions(session: Session, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The actions for the lines that are asked about."""
    checked = await session.settled(params.text_document.uri)
    if checked is None or checked[1].file is None or not checked[1].file.findings:
        return []
    shot, answer = checked
    found: list[types.CodeAction] = []
    if _wants(params, types.CodeActionKind.QuickFix.value) and _touched(answer, shot, params, session):
        planned = await session.repairs(shot)
        found += _quick_fixes(planned, shot, params, session)
    if _wants(params, FIX_ALL):
        action = types.CodeAction("accumlint: apply all safe repairs", FIX_ALL, data={"uri": shot.uri})
        if not _resolves(session) and params.context.only:
            await resolve(session, action)
        if _resolves(session) or (action.edit and (action.edit.changes or action.edit.document_changes)):
            found.append(action)
    return found


async def resolve(session: Session, action: types.CodeAction) -> types.CodeAction:
    """Put the edit into the action that applies all repairs: it is made only when it is asked for."""
    data = action.data
    checked = await session.settled(data["uri"]) if isinstance(data, dict) and "uri" in data else None
    if checked is not None:
        shot, _ = checked
        answer = await session.fix_all(shot)
        session.say(answer.error)
        action.edit = _edit(answer.changes, answer, shot, session)
    return action


def _wants(params: types.CodeActionParams, kind: str) -> bool:
    """Whether a kind, or one that it is a part of, is asked for."""
    only = params.context.only
    if only is None:
        return True
    wanted = [getattr(each, "value", each) for each in only]
    return any(kind == each or kind.startswith(f"{each}.") or not each for each in wanted)


def _resolves(session: Session) -> bool:
    capabilities = session.server.client_capabilities
    support = get_capability(capabilities, "text_document.code_action.resolve_support")
    return support is not None and "edit" in support.properties


def _touched(answer: Answer, shot: Snapshot, params: types.CodeActionParams, session: Session) -> list[int]:
    """The findings that share a line with the range that is asked about."""
    return [index for index, place in _places(answer, shot, session) if _meets(place, params)]


def _places(answer: Answer, shot: Snapshot, session: Session) -> Iterator[tuple[int, types.Location]]:
    for index, finding in enumerate(answer.file.findings if answer.file else ()):
        assert answer.file is not None
        yield index, location(answer.file, underlined(answer.file, finding.span), shot, session.encoding)


def _meets(place: types.Location, params: types.CodeActionParams) -> bool:
    asked = params.range
    same = place.uri == params.text_document.uri
    return same and asked.start.line <= place.range.end.line and place.range.start.line <= asked.end.line


def _quick_fixes(
    planned: Answer, shot: Snapshot, params: types.CodeActionParams, session: Session
) -> Iterator[types.CodeAction]:
    touched = set(_touched(planned, shot, params, session))
    can_disable = get_capability(session.server.client_capabilities, "text_document.code_action.disabled_support")
    for offer in planned.offers:
        if not touched.intersection(offer.findings) or (offer.refused and not can_disable):
            continue
        yield types.CodeAction(
            offer.title,
            types.CodeActionKind.QuickFix,
            diagnostics=_diagnostics(offer, planned, params),
            is_preferred=True if offer.applicability is Applicability.SAFE and not offer.refused else None,
            disabled=types.CodeActionDisabled(offer.refused) if offer.refused else None,
            edit=None if offer.refused else _edit(offer.changes, planned, shot, session),
        )


def _diagnostics(offer: Offer, planned: Answer, params: types.CodeActionParams) -> list[types.Diagnostic]:
    assert planned.file is not None
    codes = {planned.file.findings[index].code for index in offer.findings}
    return [each for each in params.context.diagnostics if each.source == SOURCE and each.code in codes]


def _edit(changes: Iterable[Change], answer: Answer, shot: Snapshot, session: Session) -> types.WorkspaceEdit:
    """With the version that it is for, where the client can hold it against the text that it has."""
    lines = _lines(shot)
    edits: dict[str, list[types.TextEdit]] = defaultdict(list)
    for change in changes:
        uri = shot.uri_of(change.cell)
        edits[uri].append(text_edit(change, lines[uri], session.encoding))
    if not get_capability(session.server.client_capabilities, "workspace.workspace_edit.document_changes"):
        return types.WorkspaceEdit(changes=dict(edits))
    versioned = [
        types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, shot.versions[uri]), list(made))
        for uri, made in edits.items()
    ]
    return types.WorkspaceEdit(document_changes=versioned)


def _lines(shot: Snapshot) -> dict[str, list[str]]:
    return {uri: lines_of(text) for uri, text in shot.texts.items()}
