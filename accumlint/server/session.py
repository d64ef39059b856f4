"""What the server remembers of the open documents, and when it checks them."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from accumlint.server.diagnostics import diagnostics
from accumlint.server.documents import Snapshot, key_of, open_documents, snapshot
from accumlint.server.jobs import Answer, Job, Task
from accumlint.server.options import Options
from accumlint.server.remote import Remote

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Document:
    """An open document: the answer to its last check, and the text that this answer is about."""

    snapshot: Snapshot | None = None
    answer: Answer = field(default_factory=Answer)
    checking: asyncio.Task[None] | None = None
    planning: asyncio.Task[Answer] | None = None
    planned: Snapshot | None = None  # what `planning` is about
    published: set[str] = field(default_factory=set)


class Session:
    """Checks documents in one worker process and plans their repairs in another, so that neither waits for the other.

    Nothing is done in the server's own process that takes longer than a moment: it always answers.
    """

    def __init__(self, server: LanguageServer) -> None:
        self.server = server
        self.options = Options()
        self.ended = False  # the editor has said that it is done
        self.wrong: list[str] = []  # what is wrong with the options that were given
        self._checker = Remote()
        self._planner = Remote()
        self._documents: dict[str, Document] = {}
        self._said: set[str] = set()

    @property
    def encoding(self) -> str | None:
        encoding = self.server.workspace.position_encoding
        return None if encoding is None else getattr(encoding, "value", str(encoding))

    def changed(self, uri: str, *, rests: bool = False, plan: bool = False) -> None:
        """Check a document when its text has rested; at once if it `rests`. With `plan` its repairs are planned, too.

        What was planned is dropped even if the text is the same: it may depend on files that are not.
        """
        key = key_of(self.server.workspace, uri)
        document = self._documents.setdefault(key, Document())
        for task in (document.checking, document.planning):
            if task is not None:
                task.cancel()
        document.planning = document.planned = None
        delay = 0.0 if rests else self.options.debounce
        document.checking = asyncio.ensure_future(self._check(key, document, delay, plan))
        document.checking.add_done_callback(_log_fault)

    def all_changed(self) -> None:
        """Check every document again, as a file changed that they may depend on."""
        for uri in list(open_documents(self.server.workspace)):
            self.changed(uri, rests=True)

    def closed(self, uri: str) -> None:
        """Forget a document and clear what is shown of it."""
        document = self._documents.pop(uri, None)
        if document is None:
            return
        for task in (document.checking, document.planning):
            if task is not None:
                task.cancel()
        self._publish(document, {}, {})

    async def close(self) -> None:
        """End the worker processes."""
        await self._checker.close()
        await self._planner.close()

    def checked(self, uri: str) -> tuple[Snapshot, Answer] | None:
        """The last answer about a document; None if its text has changed since."""
        document = self._documents.get(key_of(self.server.workspace, uri))
        if document is None or document.snapshot is None:
            return None
        now = snapshot(self.server.workspace, document.snapshot.uri)
        return (document.snapshot, document.answer) if now == document.snapshot else None

    def best(self, uri: str) -> tuple[Snapshot, Answer] | None:
        """As `checked`, with the repairs where they are known already."""
        checked = self.checked(uri)
        if checked is None:
            return None
        document = self._documents[checked[0].uri]
        planning = document.planning
        known = planning is not None and planning.done() and not planning.cancelled() and planning.exception() is None
        if planning is None or not known or document.planned != checked[0]:
            return checked
        return checked[0], planning.result()

    async def settled(self, uri: str) -> tuple[Snapshot, Answer] | None:
        """As `checked`, after the check that is on its way."""
        document = self._documents.get(key_of(self.server.workspace, uri))
        if document is not None and document.checking is not None:
            await asyncio.wait({document.checking})
        return self.checked(uri)

    async def repairs(self, shot: Snapshot) -> Answer:
        """The findings of a document with their repairs; made once for a text."""
        document = self._documents.setdefault(shot.uri, Document())
        if document.planning is None or document.planned != shot or document.planning.cancelled():
            if document.planning is not None:
                document.planning.cancel()
            document.planned = shot
            document.planning = asyncio.ensure_future(self._planner.do(self._job(Task.REPAIRS, shot)))
        return await asyncio.shield(document.planning)

    async def fix_all(self, shot: Snapshot) -> Answer:
        """The changes of `accumlint check --fix`."""
        return await self._planner.do(self._job(Task.FIX_ALL, shot))

    def say(self, message: str) -> None:
        """Show a message to the user, once."""
        if message and message not in self._said:
            self._said.add(message)
            params = types.ShowMessageParams(types.MessageType.Error, f"accumlint: {message}")
            self.server.window_show_message(params)

    async def _check(self, key: str, document: Document, delay: float, plan: bool) -> None:
        await asyncio.sleep(delay)
        shot = snapshot(self.server.workspace, key)
        if shot is None:
            return
        answer = await self._checker.do(self._job(Task.CHECK, shot))
        self.say(answer.error)
        if not answer.error:
            self._said.clear()  # the same mistake is worth a word when it is made again
        document.snapshot, document.answer = shot, answer
        shown = diagnostics(answer.file, shot, self.encoding) if answer.file else {}
        self._publish(document, shown, shot.versions)
        if plan and answer.file and answer.file.findings:
            asyncio.ensure_future(self.repairs(shot)).add_done_callback(_log_fault)

    def _publish(
        self, document: Document, shown: dict[str, list[types.Diagnostic]], versions: dict[str, int | None]
    ) -> None:
        """Publish for each text of the document, and clear those that are gone."""
        for uri in [*versions, *sorted(document.published - set(versions))]:
            params = types.PublishDiagnosticsParams(uri, shown.get(uri, []), versions.get(uri))
            self.server.text_document_publish_diagnostics(params)
        document.published = set(versions)

    def _job(self, task: Task, shot: Snapshot) -> Job:
        return Job(task, shot.path, shot.text, self.options.config, self.options.confirm)


def _log_fault(task: asyncio.Future[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a check failed", exc_info=task.exception())
