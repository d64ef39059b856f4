"""`accumlint server`: the language server, over stdin and stdout."""

from __future__ import annotations

import os
import sys

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.lsp.server import LanguageServer

from accumlint import __version__
from accumlint.report.full import underlined
from accumlint.server import actions, hover, options
from accumlint.server.positions import column, lines_of, location
from accumlint.server.session import Session

WATCHED = ("**/pyproject.toml", "**/.gitignore")
_CELLS = types.NotebookDocumentFilterWithCells([types.NotebookCellLanguage("python")])


def serve() -> bool:
    """Serve until the editor says that it is done, or is gone. Returns whether it ended as the protocol has it."""
    server = LanguageServer(
        "accumlint", __version__, notebook_document_sync=types.NotebookDocumentSyncOptions([_CELLS], save=True)
    )
    session = Session(server)
    _start_and_end(server, session)
    _synchronise(server, session)
    _answer(server, session)
    # What anything prints must not get between the messages; and the server closes what it is given.
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    server.start_io(stdout=messages)
    return session.ended


def _start_and_end(server: LanguageServer, session: Session) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        session.options, session.wrong = options.read(params.initialization_options)

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        for message in session.wrong:
            session.say(message)
        capability = "workspace.did_change_watched_files.dynamic_registration"
        if get_capability(server.client_capabilities, capability):
            watchers = [types.FileSystemWatcher(pattern) for pattern in WATCHED]
            registered = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            registration = types.Registration("watched", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, registered)
            await server.client_register_capability_async(types.RegistrationParams([registration]))

    @server.feature(types.SHUTDOWN)
    async def shutdown(params: None) -> None:
        session.ended = True
        await session.close()


def _synchronise(server: LanguageServer, session: Session) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: types.DidOpenTextDocumentParams) -> None:
        session.changed(params.text_document.uri, rests=True, plan=True)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        session.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: types.DidSaveTextDocumentParams) -> None:
        session.all_changed()
        session.changed(params.text_document.uri, rests=True, plan=True)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: types.DidCloseTextDocumentParams) -> None:
        session.closed(params.text_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    async def notebook_opened(params: types.DidOpenNotebookDocumentParams) -> None:
        session.changed(params.notebook_document.uri, rests=True, plan=True)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    async def notebook_changed(params: types.DidChangeNotebookDocumentParams) -> None:
        session.changed(params.notebook_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    async def notebook_saved(params: types.DidSaveNotebookDocumentParams) -> None:
        session.changed(params.notebook_document.uri, rests=True, plan=True)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    async def notebook_closed(params: types.DidCloseNotebookDocumentParams) -> None:
        session.closed(params.notebook_document.uri)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def files_changed(params: types.DidChangeWatchedFilesParams) -> None:
        session.all_changed()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def configured(params: types.DidChangeConfigurationParams) -> None:
        settings = params.settings.get("accumlint") if isinstance(params.settings, dict) else None
        if settings is not None:
            session.options, wrong = options.read(settings)
            for message in wrong:
                session.say(message)
            session.all_changed()


def _answer(server: LanguageServer, session: Session) -> None:
    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(actions.KINDS, resolve_provider=True))
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        return await actions.code_actions(session, params)

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(action: types.CodeAction) -> types.CodeAction:
        return await actions.resolve(session, action)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(params: types.HoverParams) -> types.Hover | None:
        text = _page_at(session, params.text_document.uri, params.position)
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None


def _page_at(session: Session, uri: str, at: types.Position) -> str:
    """What there is to say about a place: the findings on it, or the rule that a comment names."""
    checked = session.best(uri)
    if checked is not None and checked[1].file is not None:
        shot, file = checked[0], checked[1].file
        texts = []
        for finding in file.findings:
            place = location(file, underlined(file, finding.span), shot, session.encoding)
            if place.uri == uri and place.range.start <= at <= place.range.end:
                texts.append(hover.of_finding(file, finding))
        if texts:
            return "\n\n---\n\n".join(texts)
    lines = lines_of(session.server.workspace.get_text_document(uri).source)
    if not 0 <= at.line < len(lines):
        return ""
    code = hover.code_at(lines[at.line], column(lines[at.line], at.character, session.encoding))
    return hover.of_rule(code) if code else ""
