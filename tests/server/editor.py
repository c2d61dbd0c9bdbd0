"""An editor for tests: a language client over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

__all__ = ["Editor", "editor"]

_PATIENCE = 60.0


class Editor(LanguageClient):
    """Keeps what the server publishes and says."""

    def __init__(self) -> None:
        super().__init__("an-editor", "1")
        self.shown: dict[str, list[types.Diagnostic]] = {}
        self.messages: list[str] = []
        self.watched: list[str] = []
        self.exit_code: int | None = None
        self._news = asyncio.Event()
        self._versions: dict[str, int] = {}
        self._texts: dict[str, str] = {}

    def listen(self) -> None:
        """Take what the server sends."""

        def published(params: types.PublishDiagnosticsParams) -> None:
            self.shown[params.uri] = list(params.diagnostics)
            self._news.set()

        def said(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)
            self._news.set()

        def logged(params: types.LogMessageParams) -> None:
            self.messages.append(f"log: {params.message}")
            self._news.set()

        def registered(params: types.RegistrationParams) -> None:
            for registration in params.registrations:
                options = registration.register_options
                assert isinstance(options, dict)
                self.watched += [watcher["globPattern"] for watcher in options["watchers"]]
            self._news.set()

        self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(published)
        self.feature(types.WINDOW_SHOW_MESSAGE)(said)
        self.feature(types.WINDOW_LOG_MESSAGE)(logged)
        self.feature(types.CLIENT_REGISTER_CAPABILITY)(registered)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what the server told makes ``condition`` true."""
        while not condition():
            try:
                await asyncio.wait_for(self._news.wait(), _PATIENCE)
            except asyncio.TimeoutError:
                raise AssertionError(f"no news: {self.codes()}, {self.messages}") from None
            self._news.clear()

    @property
    def server_pid(self) -> int | None:
        return self._server.pid if self._server is not None else None

    def codes(self) -> dict[str, list[str]]:
        """The codes of what is shown, by file name; files without anything are left out."""
        return {
            Path(uri).name: [str(d.code) for d in found]
            for uri, found in sorted(self.shown.items())
            if found
        }

    def open(self, path: Path, text: str | None = None) -> None:
        self._versions[path.as_uri()] = 1
        held = path.read_bytes().decode() if text is None else text
        self._texts[path.as_uri()] = held
        self.text_document_did_open(
            types.DidOpenTextDocumentParams(
                types.TextDocumentItem(path.as_uri(), "python", 1, held)
            )
        )

    def type(self, path: Path, text: str) -> None:
        """Replace the text of an open file, unsaved."""
        uri = path.as_uri()
        self._versions[uri] += 1
        self._texts[uri] = text
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self._versions[uri], uri),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    async def actions(
        self, path: Path, *found: types.Diagnostic, only: str | None = None
    ) -> list[types.CodeAction]:
        """What is offered at the place of the first of some diagnostics, or at the beginning."""
        nowhere = types.Range(types.Position(0, 0), types.Position(0, 0))
        offered = await self.text_document_code_action_async(
            types.CodeActionParams(
                types.TextDocumentIdentifier(path.as_uri()),
                found[0].range if found else nowhere,
                types.CodeActionContext(found, only=[only] if only else None),
            )
        )
        actions = [action for action in offered or () if isinstance(action, types.CodeAction)]
        assert len(actions) == len(offered or ())
        return actions

    def apply(self, edit: types.WorkspaceEdit) -> None:
        """Make an edit as an editor does: in open files, unsaved, and in others on disk."""
        changes = dict(edit.changes or {})
        for change in edit.document_changes or ():
            assert isinstance(change, types.TextDocumentEdit)
            uri = change.text_document.uri
            assert change.text_document.version == self._versions.get(uri)
            changes[uri] = [e for e in change.edits if isinstance(e, types.TextEdit)]
        for uri, edits in changes.items():
            path = Path(to_fs_path(uri) or "")
            document = TextDocument(uri, self._texts.get(uri) or path.read_bytes().decode())
            for made in sorted(edits, key=lambda e: e.range.start.line, reverse=True):
                document.apply_change(
                    types.TextDocumentContentChangePartial(range=made.range, text=made.new_text)
                )
            if uri in self._texts:
                self.type(path, document.source)
            else:
                path.write_bytes(document.source.encode())
                self.changed_on_disk(path, types.FileChangeType.Changed)

    def text(self, path: Path) -> str:
        """The text of an open file."""
        return self._texts[path.as_uri()]

    def save(self, path: Path, text: str) -> None:
        self.type(path, text)
        path.write_text(text, encoding="utf-8")
        self.text_document_did_save(
            types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(path.as_uri()))
        )

    def changed_on_disk(self, path: Path, kind: types.FileChangeType) -> None:
        self.workspace_did_change_watched_files(
            types.DidChangeWatchedFilesParams([types.FileEvent(path.as_uri(), kind)])
        )

    async def hover(self, path: Path, line: int, character: int) -> types.Hover | None:
        """What is shown over a 0-based place."""
        return await self.text_document_hover_async(
            types.HoverParams(
                types.TextDocumentIdentifier(path.as_uri()), types.Position(line, character)
            )
        )

    async def server_exit(self, server: asyncio.subprocess.Process) -> None:
        self.exit_code = server.returncode
        self._news.set()


@asynccontextmanager
async def editor(
    *folders: Path, related: bool = True, resolves: bool = True
) -> AsyncIterator[Editor]:
    """An editor with a workspace of ``folders``; afterwards the server has ended by itself.

    One that ``resolves`` asks for the edit of an action when it is chosen, bound to versions.
    """
    client = Editor()
    client.listen()
    await client.start_io(sys.executable, "-m", "mla_guard", "server")
    await client.initialize_async(
        types.InitializeParams(
            capabilities=types.ClientCapabilities(
                text_document=types.TextDocumentClientCapabilities(
                    publish_diagnostics=types.PublishDiagnosticsClientCapabilities(
                        related_information=related
                    ),
                    code_action=types.CodeActionClientCapabilities(
                        data_support=True,
                        resolve_support=types.ClientCodeActionResolveOptions(["edit"]),
                    )
                    if resolves
                    else None,
                ),
                workspace=types.WorkspaceClientCapabilities(
                    workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True)
                    if resolves
                    else None,
                    did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(
                        dynamic_registration=True
                    ),
                ),
            ),
            workspace_folders=[types.WorkspaceFolder(f.as_uri(), f.name) for f in folders],
        )
    )
    client.initialized(types.InitializedParams())
    try:
        yield client
        await client.shutdown_async(None)
        client.exit(None)
        await client.until(lambda: client.exit_code is not None)
        assert client.exit_code == 0
    finally:
        server = client._server
        if server is not None and server.returncode is None:
            server.kill()
        await client.stop()  # type: ignore[no-untyped-call]
