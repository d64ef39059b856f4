"""An editor as the server sees one: a real client that starts `accumlint server` and speaks to it over stdio."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

PATIENCE = 90.0  # seconds; the machine may be busy
SERVER = ("-m", "accumlint", "server", "--stdio")
CAPABLE = types.ClientCapabilities(
    workspace=types.WorkspaceClientCapabilities(
        workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
        did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
    ),
    text_document=types.TextDocumentClientCapabilities(
        code_action=types.CodeActionClientCapabilities(
            disabled_support=True,
            resolve_support=types.ClientCodeActionResolveOptions(["edit"]),
        )
    ),
)


class Editor:
    """Holds open texts, what was published about them, and the messages that were shown."""

    def __init__(self, client: LanguageClient) -> None:
        self.client = client
        self.published: list[types.PublishDiagnosticsParams] = []
        self.messages: list[str] = []
        self.registered: list[str] = []
        self.server: types.InitializeResult | None = None
        self._news = asyncio.Event()

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def on_diagnostics(params: types.PublishDiagnosticsParams) -> None:
            self.published.append(params)
            self._news.set()

        @client.feature(types.WINDOW_SHOW_MESSAGE)
        def on_message(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)
            self._news.set()

        @client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def on_register(params: types.RegistrationParams) -> None:
            self.registered += [registration.method for registration in params.registrations]
            self._news.set()

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait for something that the server says."""

        async def wait() -> Any:
            while not (value := condition()):
                self._news.clear()
                await self._news.wait()
            return value

        return await asyncio.wait_for(wait(), PATIENCE)

    def open(self, path: Path | str, text: str, version: int = 1, language: str = "python") -> str:
        uri = path.as_uri() if isinstance(path, Path) else path
        item = types.TextDocumentItem(uri, language, version, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, text: str, version: int) -> None:
        document = types.VersionedTextDocumentIdentifier(version, uri)
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [whole]))

    def save(self, uri: str) -> None:
        document = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))

    def close(self, uri: str) -> None:
        document = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(document))

    async def diagnostics(self, uri: str, version: int | None = 1) -> list[types.Diagnostic]:
        """What is published about this version."""

        def find() -> types.PublishDiagnosticsParams | None:
            found = [each for each in self.published if each.uri == uri and each.version == version]
            return found[-1] if found else None

        return list((await self.until(find)).diagnostics)

    async def codes(self, uri: str, version: int | None = 1) -> list[str]:
        return [str(each.code) for each in await self.diagnostics(uri, version)]

    async def actions(
        self, uri: str, line: int, only: list[str] | None = None, diagnostics: list[types.Diagnostic] | None = None
    ) -> list[types.CodeAction]:
        at = types.Range(types.Position(line, 0), types.Position(line, 0))
        context = types.CodeActionContext(diagnostics or [], only=only)
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), at, context)
        found = await asyncio.wait_for(self.client.text_document_code_action_async(params), PATIENCE)
        return [each for each in found or [] if isinstance(each, types.CodeAction)]

    async def hover(self, uri: str, line: int, character: int) -> str:
        params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        found = await asyncio.wait_for(self.client.text_document_hover_async(params), PATIENCE)
        if found is None:
            return ""
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value


def apply(text: str, edits: list[types.TextEdit], encoding: str = "utf-16-le", size: int = 2) -> str:
    """The text after the edits, by the protocol's own definition of a position."""
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text)

    def offset(at: types.Position) -> int:
        before = "".join(lines[: at.line])
        line = lines[at.line] if at.line < len(lines) else ""
        units = line.rstrip("\r\n").encode(encoding)
        return len(before) + len(units[: at.character * size].decode(encoding))

    for edit in sorted(edits, key=lambda edit: (edit.range.start.line, edit.range.start.character), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


def edits_of(action: types.CodeAction, uri: str) -> list[types.TextEdit]:
    assert action.edit is not None
    if action.edit.changes:
        return list(action.edit.changes.get(uri, []))
    edits: list[types.TextEdit] = []
    for change in action.edit.document_changes or []:
        assert isinstance(change, types.TextDocumentEdit)
        if change.text_document.uri == uri:
            edits += [edit for edit in change.edits if isinstance(edit, types.TextEdit)]
    return edits


@asynccontextmanager
async def editor(
    folder: Path,
    command: tuple[str, ...] = SERVER,
    capabilities: types.ClientCapabilities = CAPABLE,
    options: object = None,
) -> AsyncIterator[Editor]:
    """An editor with `folder` as its workspace; the server is ended as the protocol has it, and must end well."""
    client = LanguageClient("test", "1")
    used = Editor(client)
    await client.start_io(sys.executable, *command, cwd=str(folder))
    params = types.InitializeParams(
        capabilities,
        process_id=None,
        root_uri=folder.as_uri(),
        workspace_folders=[types.WorkspaceFolder(folder.as_uri(), folder.name)],
        initialization_options=options,
    )
    used.server = await asyncio.wait_for(client.initialize_async(params), PATIENCE)
    client.initialized(types.InitializedParams())
    yield used
    await asyncio.wait_for(client.shutdown_async(None), PATIENCE)
    client.exit(None)
    process = client._server
    assert process is not None
    assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    await client.stop()
