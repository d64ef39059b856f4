"""The editor's documents at one version: files, and notebooks as the JSON that they would be saved as."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lsprotocol import types
from pygls.uris import to_fs_path
from pygls.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`uri` is the key of the document. `cells` are the URIs of a notebook's code cells, in their order.

    `versions` holds the version of each text that an edit can name and that diagnostics are published for.
    """

    uri: str
    version: int | None
    path: str  # absolute where the document is a file
    text: str
    cells: tuple[str, ...] = ()
    versions: dict[str, int | None] = field(default_factory=dict)

    @property
    def uris(self) -> tuple[str, ...]:
        """The texts: the document itself, or the cells of a notebook."""
        return tuple(self.versions)

    @property
    def texts(self) -> dict[str, str]:
        """Each text by its URI."""
        if not self.cells:
            return {self.uri: self.text}
        sources = (cell["source"] for cell in json.loads(self.text)["cells"])
        return dict(zip(self.cells, sources, strict=True))

    def uri_of(self, cell: int | None) -> str:
        return self.uri if cell is None else self.cells[cell - 1]

    def cell_of(self, uri: str) -> int | None:
        """The inverse of `uri_of`."""
        return self.cells.index(uri) + 1 if uri in self.cells else None


def key_of(workspace: Workspace, uri: str) -> str:
    """The URI of the notebook that a cell is in; any other URI as it is."""
    notebook = workspace.get_notebook_document(cell_uri=uri)
    return uri if notebook is None else notebook.uri


def snapshot(workspace: Workspace, uri: str) -> Snapshot | None:
    """The document as the editor has it now; None if it is not open, or not Python."""
    notebook = workspace.get_notebook_document(notebook_uri=uri)
    if notebook is not None:
        return _notebook(workspace, notebook)
    document = workspace.text_documents.get(unquote(uri))
    if document is None or urlsplit(uri).scheme == "vscode-notebook-cell":
        return None  # a lone cell says nothing of the others
    path = _path(workspace, uri)
    if document.language_id != "python" and not path.endswith((".py", ".pyi")):
        return None
    return Snapshot(uri, document.version, path, document.source, versions={uri: document.version})


def open_documents(workspace: Workspace) -> Iterator[str]:
    """The keys of all open documents."""
    yield from (notebook.uri for notebook in workspace.notebook_documents.values())
    for document in workspace.text_documents.values():
        if workspace.get_notebook_document(cell_uri=document.uri) is None:
            yield document.uri


def _notebook(workspace: Workspace, notebook: types.NotebookDocument) -> Snapshot:
    cells = []
    for cell in notebook.cells:
        document = workspace.text_documents.get(unquote(cell.document))
        is_code = cell.kind is types.NotebookCellKind.Code
        if document is not None and is_code and document.language_id in ("python", None, ""):
            cells.append(document)
    content = {
        "cells": [_cell(document.source) for document in cells],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    path = _path(workspace, notebook.uri)
    path += "" if path.endswith(".ipynb") else ".ipynb"
    versions = {document.uri: document.version for document in cells}
    return Snapshot(notebook.uri, notebook.version, path, json.dumps(content), tuple(versions), versions)


def _cell(source: str) -> dict[str, object]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def _path(workspace: Workspace, uri: str) -> str:
    """The path of a file; of a document that is in none, a name in the workspace, so that its configuration holds."""
    path = to_fs_path(uri) if urlsplit(uri).scheme == "file" else None
    if path is not None:
        return path
    folder = workspace.root_path or next((to_fs_path(uri) for uri in workspace.folders), None)
    return str(Path(folder or Path.cwd()) / (urlsplit(uri).path.rpartition("/")[2] or "untitled"))
