"""`accumlint server` as an editor sees it: over stdio, with a real client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from editor import Editor, apply, editor, edits_of
from lsprotocol import types

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"
CLIP = """import torch


def train(model, loader, optimizer):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x), y, reduction="sum")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
CLIP_LINE = 8  # from 0
RIGHT = "def train(model, loader, optimizer):\n    pass\n"


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @wraps(test)
    def call(*arguments: object, **named: object) -> None:
        asyncio.run(test(*arguments, **named))

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with a configuration of its own."""
    (tmp_path / "pyproject.toml").write_text("[tool.accumlint]\n")
    return tmp_path


async def check(folder: Path, *arguments: str) -> str:
    command = (sys.executable, "-m", "accumlint", "check", *arguments)
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=subprocess.PIPE)
    return (await process.communicate())[0].decode()


@in_loop
async def test_open_change_save_close(folder: Path) -> None:
    """The text of the editor counts, not that of the disk."""
    path = folder / "train.py"
    path.write_text(RIGHT)
    async with editor(folder) as used:
        uri = used.open(path, CLIP)
        (found,) = [each for each in await used.diagnostics(uri) if each.code == "ACC201"]
        line = CLIP.splitlines()[CLIP_LINE]
        assert found.range == types.Range(types.Position(CLIP_LINE, 8), types.Position(CLIP_LINE, len(line)))
        assert found.source == "accumlint"
        assert found.code_description.href.endswith("/rules/ACC201/")
        assert found.severity is types.DiagnosticSeverity.Warning
        used.change(uri, RIGHT, 2)
        assert await used.codes(uri, 2) == []
        used.change(uri, CLIP, 3)
        used.save(uri)
        assert "ACC201" in await used.codes(uri, 3)
        used.close(uri)
        assert await used.codes(uri, None) == []


@in_loop
async def test_the_same_findings_as_the_command_line(folder: Path) -> None:
    names = ("token_loss_modulo", "amp_clip_scaled", "right_deferred", "off_by_one")
    async with editor(folder) as used:
        for name in names:
            text = (SAMPLES / f"{name}.py").read_text()
            (folder / f"{name}.py").write_text(text)
            used.open(folder / f"{name}.py", text)
        for name in names:
            shown = await check(folder, f"{name}.py", "--output-format", "json")
            expected = [(each["code"], each["location"]["row"]) for each in json.loads(shown)]
            found = await used.diagnostics((folder / f"{name}.py").as_uri())
            assert [(each.code, each.range.start.line + 1) for each in found] == expected


@in_loop
async def test_a_safe_repair_is_preferred_and_is_that_of_fix(folder: Path) -> None:
    pytest.importorskip("torch")
    path = folder / "train.py"
    text = (SAMPLES / "token_loss_modulo.py").read_text()
    path.write_text(text)
    async with editor(folder) as used:
        uri = used.open(path, text)
        found = await used.diagnostics(uri)
        line = found[0].range.start.line
        repair, *others = await used.actions(uri, line, ["quickfix"], found)
        assert "safe: proved, executed, leaf-checked" in repair.title
        assert repair.is_preferred
        assert not any(action.is_preferred for action in others)
        assert {each.code for each in repair.diagnostics} == {"ACC101", "ACC304"}
        (fix_all,) = await used.actions(uri, 0, ["source.fixAll"])
        assert fix_all.kind == "source.fixAll.accumlint"
        assert fix_all.edit is None
        resolved = await used.client.code_action_resolve_async(fix_all)
        assert "repair: safe (proved, executed, leaf-checked)" in await used.hover(uri, line, 14)
    await check(folder, "train.py", "--fix")
    fixed = path.read_text()
    assert fixed != text
    assert apply(text, edits_of(repair, uri)) == fixed
    assert apply(text, edits_of(resolved, uri)) == fixed


@in_loop
async def test_an_unsafe_repair_is_offered_as_such(folder: Path) -> None:
    """Not executed, so not preferred, and not among those that are applied all at once."""
    text = (SAMPLES / "token_loss_modulo.py").read_text()
    async with editor(folder, options={"confirm": False}) as used:
        uri = used.open(folder / "train.py", text)
        found = await used.diagnostics(uri)
        repair, *_ = await used.actions(uri, found[0].range.start.line, ["quickfix"])
        assert "unsafe: proved)" in repair.title
        assert not repair.is_preferred
        (fix_all,) = await used.actions(uri, 0, ["source.fixAll.accumlint"])
        resolved = await used.client.code_action_resolve_async(fix_all)
        assert edits_of(resolved, uri) == []
        assert await used.actions(uri, 0, ["refactor"]) == []


@in_loop
async def test_a_noqa_is_offered_and_silences(folder: Path) -> None:
    async with editor(folder, options={"confirm": False}) as used:
        uri = used.open(folder / "train.py", CLIP)
        await used.diagnostics(uri)
        actions = await used.actions(uri, CLIP_LINE)
        (noqa,) = [action for action in actions if action.title == "Suppress ACC201 here with a noqa comment"]
        text = apply(CLIP, edits_of(noqa, uri))
        assert text.splitlines()[CLIP_LINE].endswith("1.0)  # noqa: ACC201")
        used.change(uri, text, 2)
        assert "ACC201" not in await used.codes(uri, 2)
        assert "# clip-per-microbatch (ACC201)" in await used.hover(
            uri, CLIP_LINE, text.splitlines()[CLIP_LINE].index("ACC201")
        )


@in_loop
async def test_a_client_that_can_do_little(folder: Path) -> None:
    """No versions in edits, no resolving, no disabled actions, nothing registered."""
    (folder / "pyproject.toml").write_text('[tool.accumlint]\nextend-select = ["ACC901"]\n')
    text = "x = 1  # noqa: ACC101"
    async with editor(folder, capabilities=types.ClientCapabilities()) as used:
        uri = used.open(folder / "a.py", text)
        (found,) = await used.diagnostics(uri)
        assert (found.code, list(found.tags)) == ("ACC901", [types.DiagnosticTag.Unnecessary])
        assert found.severity is types.DiagnosticSeverity.Information
        assert len(await used.actions(uri, 0)) == 2  # without its edit the third would be useless
        (fix_all,) = await used.actions(uri, 0, ["source.fixAll"])
        assert fix_all.edit.changes is not None
        assert apply(text, edits_of(fix_all, uri)) == "x = 1"
        assert used.registered == []


@pytest.mark.parametrize(
    ("name", "unit", "column"), [("utf-8", 1, 17), ("utf-16", 2, 14), ("utf-32", 4, 13), (None, 2, 14)]
)
@in_loop
async def test_columns_are_in_the_unit_that_was_agreed_on(
    folder: Path, name: str | None, unit: int, column: int
) -> None:
    (folder / "pyproject.toml").write_text('[tool.accumlint]\nextend-select = ["ACC901"]\n')
    text = 'x = "é\U0001f600"; y = 1  # noqa: ACC101\n'
    offered = [types.PositionEncodingKind(name)] if name else None
    general = types.GeneralClientCapabilities(position_encodings=offered)
    async with editor(folder, capabilities=types.ClientCapabilities(general=general)) as used:
        assert used.server.capabilities.position_encoding == (name or "utf-16")
        uri = used.open(folder / "a.py", text)
        (found,) = await used.diagnostics(uri)
        before = text[: text.index("#")]
        codec = {1: "utf-8", 2: "utf-16-le", 4: "utf-32-le"}[unit]
        assert found.range.start.character == len(before.encode(codec)) // unit
        (fix_all,) = await used.actions(uri, 0, ["source.fixAll"])
        assert apply(text, edits_of(fix_all, uri), codec, unit) == 'x = "é\U0001f600"; y = 1\n'


class Notebook:
    """A notebook that is open in an editor."""

    def __init__(self, used: Editor, path: Path, cells: list[tuple[str, str]]) -> None:
        self.used, self.uri, self.version = used, path.as_uri(), 1
        self.texts = {f"vscode-notebook-cell:{path.as_posix()}#{name}": text for name, text in cells}
        self.uris = list(self.texts)
        document = types.NotebookDocument(self.uri, "jupyter-notebook", 1, [self.cell(uri) for uri in self.uris])
        items = [types.TextDocumentItem(uri, "python", 1, text) for uri, text in self.texts.items()]
        used.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(document, items))

    @staticmethod
    def cell(uri: str) -> types.NotebookCell:
        return types.NotebookCell(types.NotebookCellKind.Code, uri)

    def change(self, cells: types.NotebookDocumentCellChanges) -> None:
        self.version += 1
        self.used.client.notebook_document_did_change(
            types.DidChangeNotebookDocumentParams(
                types.VersionedNotebookDocumentIdentifier(self.version, self.uri),
                types.NotebookDocumentChangeEvent(cells=cells),
            )
        )

    def retype(self, uri: str, text: str, version: int) -> None:
        whole = types.TextDocumentContentChangeWholeDocument(text)
        identifier = types.VersionedTextDocumentIdentifier(version, uri)
        content = types.NotebookDocumentCellContentChanges(identifier, [whole])
        self.change(types.NotebookDocumentCellChanges(text_content=[content]))

    def remove(self, index: int) -> None:
        array = types.NotebookCellArrayChange(index, 1)
        gone = [types.TextDocumentIdentifier(self.uris[index])]
        structure = types.NotebookDocumentCellChangeStructure(array, did_close=gone)
        self.change(types.NotebookDocumentCellChanges(structure=structure))


@in_loop
async def test_a_notebook_is_read_as_one_module(folder: Path) -> None:
    head, _, rest = CLIP.partition("\n\n\n")
    cells = [("A", f"%matplotlib inline\n{head}"), ("B", "%%bash\nls"), ("C", rest.removesuffix("\n"))]
    async with editor(folder, options={"confirm": False}) as used:
        notebook = Notebook(used, folder / "train.ipynb", cells)
        first, shell, loop = notebook.uris
        found = [each for each in await used.diagnostics(loop) if each.code == "ACC201"]
        assert [each.range.start.line for each in found] == [CLIP_LINE - 3]
        assert await used.codes(first) == await used.codes(shell) == []
        text = notebook.texts[loop]
        quick = await used.actions(loop, CLIP_LINE - 3, ["quickfix"])
        (noqa,) = [action for action in quick if "Suppress ACC201" in action.title]
        silenced = apply(text, edits_of(noqa, loop))
        assert "# noqa: ACC201" in silenced.splitlines()[CLIP_LINE - 3]
        assert "# clip-per-microbatch (ACC201)" in await used.hover(loop, CLIP_LINE - 3, 10)
        notebook.retype(loop, silenced, 2)
        assert "ACC201" not in await used.codes(loop, 2)
        notebook.retype(loop, text, 3)
        assert "ACC201" in await used.codes(loop, 3)
        notebook.remove(2)
        assert await used.codes(loop, None) == []
        gone = types.DidCloseNotebookDocumentParams(
            types.NotebookDocumentIdentifier(notebook.uri),
            [types.TextDocumentIdentifier(uri) for uri in (first, shell)],
        )
        used.client.notebook_document_did_close(gone)
        assert await used.codes(first, None) == []


@in_loop
async def test_a_repair_of_a_notebook_stays_in_its_cell(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.accumlint]\nextend-select = ["ACC901"]\n')
    async with editor(folder) as used:
        notebook = Notebook(
            used, folder / "a.ipynb", [("A", "%time x = 1\ny = 2"), ("B", "!ls\nx = 1  # noqa: ACC101")]
        )
        first, second = notebook.uris
        assert await used.codes(second) == ["ACC901"]
        (fix_all,) = await used.actions(second, 1, ["source.fixAll"])
        resolved = await used.client.code_action_resolve_async(fix_all)
        assert edits_of(resolved, first) == []
        assert apply(notebook.texts[second], edits_of(resolved, second)) == "!ls\nx = 1"


@in_loop
async def test_the_configuration_of_the_folder_holds(folder: Path) -> None:
    settings = folder / "pyproject.toml"
    settings.write_text('[tool.accumlint]\nignore = ["ACC2"]\nextend-exclude = ["old"]\n')
    (folder / "old").mkdir()
    (folder / "old" / "train.py").write_text(CLIP)
    async with editor(folder) as used:
        await used.until(lambda: used.registered)
        assert used.registered == ["workspace/didChangeWatchedFiles"]
        uri = used.open(folder / "train.py", CLIP)
        untitled = used.open("untitled:Untitled-1", CLIP)
        assert "ACC201" not in await used.codes(uri)
        assert "ACC201" not in await used.codes(untitled)
        assert await used.codes(used.open(folder / "old" / "train.py", CLIP)) == []
        used.published.clear()
        settings.write_text("[tool.accumlint]\nslect = []\n")
        changed = types.FileEvent(settings.as_uri(), types.FileChangeType.Changed)
        used.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([changed]))
        await used.until(lambda: used.messages)
        await used.diagnostics(untitled)
        (message,) = used.messages  # once, although there are three documents
        assert 'unknown key "slect" in [tool.accumlint]; did you mean "select"?' in message
        used.published.clear()
        settings.write_text("[tool.accumlint]\n")
        used.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([changed]))
        assert "ACC201" in await used.codes(uri)


@in_loop
async def test_a_baseline_holds(folder: Path) -> None:
    (folder / "train.py").write_text(CLIP)
    await check(folder, "--baseline", "known.json", "--write-baseline")
    (folder / "pyproject.toml").write_text('[tool.accumlint]\nbaseline = "known.json"\n')
    async with editor(folder) as used:
        uri = used.open(folder / "train.py", f"import os\n{CLIP}")
        assert await used.codes(uri) == []


@in_loop
async def test_an_imported_file_that_was_saved(folder: Path) -> None:
    """The loop calls a helper of another file, which changes on disk."""
    helper = folder / "helper.py"
    text = CLIP.replace("import torch\n", "import torch\nfrom helper import clip\n", 1).replace(
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "clip(model)"
    )
    helper.write_text("def clip(model):\n    pass\n")
    (folder / "train.py").write_text(text)
    async with editor(folder) as used:
        uri = used.open(folder / "train.py", text)
        before = await used.codes(uri)
        used.published.clear()
        helper.write_text(
            "import torch\n\n\ndef clip(model, loss=1):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        )
        used.save(uri)
        after = await used.codes(uri)
    shown = json.loads(await check(folder, "train.py", "--output-format", "json"))
    assert after == [each["code"] for each in shown]
    assert before != after


@in_loop
async def test_a_burst_of_edits(folder: Path) -> None:
    """400 keystrokes, with questions between them: each is answered at once, and only the last text is checked."""
    async with editor(folder, options={"confirm": False, "debounce": 200}) as used:
        text = (SAMPLES / "token_loss_modulo.py").read_text()
        uri = used.open(folder / "train.py", text)
        await used.diagnostics(uri)
        slowest = 0.0
        for version in range(2, 402):
            used.change(uri, f"{text}# {'x' * version}\n", version)
            if version % 40 == 0:
                asked = time.monotonic()
                await used.hover(uri, 0, 0)
                slowest = max(slowest, time.monotonic() - asked)
        used.change(uri, CLIP, 402)
        assert "ACC201" in await used.codes(uri, 402)
        assert slowest < 3
        versions = [each.version for each in used.published]
        assert len(versions) <= 12
        assert versions == sorted(versions)


@in_loop
async def test_nothing_of_the_user_is_run_or_imported(folder: Path) -> None:
    trap = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"
    for name in ("click", "torch", "json", "rich", "helper", "sitecustomize"):
        (folder / f"{name}.py").write_text(trap)
    text = f"{trap}import helper\n{CLIP}"
    (folder / "train.py").write_text(text)
    async with editor(folder) as used:
        uri = used.open(folder / "train.py", text)
        assert "ACC201" in await used.codes(uri)
        await used.actions(uri, CLIP_LINE + 3)
    assert not list(folder.glob("*.ran"))


@in_loop
async def test_what_cannot_be_checked_is_said(folder: Path) -> None:
    async with editor(folder, options={"confrim": False, "debounce": "soon"}) as used:
        uri = used.open(folder / "a.py", "x = 1\ndef f(:\n")
        (found,) = await used.diagnostics(uri)
        assert (found.range.start.line, found.severity) == (1, types.DiagnosticSeverity.Information)
        assert found.message.startswith("not checked: ")
        assert await used.actions(uri, 1) == []
        used.change(uri, "", 2)
        assert await used.codes(uri, 2) == []
        assert used.messages == [
            'accumlint: unknown option "confrim"; did you mean "confirm"?',
            "accumlint: \"debounce\" is a number of milliseconds up to 60000, not 'soon'",
        ]
        used.open(folder / "notes.md", CLIP, language="markdown")
        used.open("vscode-notebook-cell:/a.ipynb#X", CLIP)  # a client without notebook synchronisation
        assert await used.codes(used.open(folder / "b.py", "")) == []
        assert {each.uri for each in used.published} == {uri, (folder / "b.py").as_uri()}


def test_without_pygls(tmp_path: Path) -> None:
    missing = "import sys; sys.modules['pygls'] = sys.modules['lsprotocol'] = None"
    command = [sys.executable, "-c", f"{missing}; from accumlint.cli.main import main; main()", "server"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: server: pygls is not installed: pip install 'accumlint[lsp]'\n"


def test_an_editor_that_goes_away(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "accumlint", "server"]
    done = subprocess.run(command, input=b"", capture_output=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
