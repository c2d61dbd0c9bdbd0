"""One editor's session: what is open, what was found, and what the editor was told of it."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from lint_rules.server import diagnostics
from lint_rules.server.checking import Checking
from lint_rules.server.child import Child, ChildDied
from lint_rules.server.texts import Texts
from lint_rules.server.wire import Checked, CheckTree
from lint_rules.target import inside, project_of
from mla_guard import __version__
from mla_guard.diagnostic import Diagnostic

__all__ = ["Session", "path_of"]

Shown = list[tuple[types.Diagnostic, Diagnostic | None]]
"""The diagnostics of a file, each with its finding; that a file cannot be read is none."""


class Session(LanguageServer):
    """The server of one editor; every check goes through :meth:`check`."""

    def __init__(self) -> None:
        super().__init__("mla-guard", __version__)
        self.child = Child()
        self.checking = Checking(self.check)
        self._running: asyncio.Task[None] | None = None
        self.published = 0
        """How often other findings were published: what is asked about earlier ones is outdated."""
        self._shown: dict[str, Shown] = {}
        self._said: tuple[str, ...] = ()
        self._noted: tuple[str, ...] = ()

    def start(self) -> None:
        """Check now and whenever it is asked for."""
        self._run()
        self.checking.ask()

    def _run(self) -> None:
        self._running = asyncio.get_running_loop().create_task(self.checking.run())
        self._running.add_done_callback(self._stopped)

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """Say what ended the loop of checks, and begin it anew."""
        if not task.cancelled() and (error := task.exception()) is not None:
            traceback.print_exception(error, file=sys.stderr)
            self.say((f"internal error: {error!r}",))
            self._run()

    def stop(self) -> None:
        """Check no more."""
        if self._running is not None:
            self._running.cancel()
        self.child.close()

    def held(self) -> dict[str, str]:
        """The text of the Python files that are open, by path."""
        return {
            path: document.source
            for uri, document in self.workspace.text_documents.items()
            if (path := path_of(uri)) and path.endswith(".py")
        }

    def unsaved(self, held: Mapping[str, str]) -> dict[str, bytes]:
        """The bytes of open files that are not those on disk, by path."""
        return {
            path: data for path, text in held.items() if (data := _unsaved(path, text)) is not None
        }

    def findings(self, path: str) -> list[tuple[types.Diagnostic, Diagnostic]]:
        """The findings that are shown in a file."""
        return [(d, finding) for d, finding in self._shown.get(path, ()) if finding is not None]

    def folders(self, held: Mapping[str, str]) -> tuple[str, ...]:
        """What is checked: the workspace's folders, and the projects of open files outside them."""
        paths = [path for uri in self.workspace.folders if (path := path_of(uri))]
        folders = [Path(path) for path in paths if os.path.isdir(path)]
        for file in map(Path, held):
            if not any(inside(file, folder) for folder in folders) and file.exists():
                folders.append(project_of(file))
        return tuple(dict.fromkeys(map(str, folders)))

    async def check(self) -> None:
        """Check everything as it is now, and publish."""
        held = self.held()
        texts = self.texts(held)
        versions = {
            path: document.version
            for uri, document in self.workspace.text_documents.items()
            if (path := path_of(uri))
        }
        unsaved = self.unsaved(held)
        try:
            checked = await self.child.check(CheckTree(self.folders(held), unsaved))
        except ChildDied as error:
            self.say((f"{error}; it starts anew with the next change",))
            return
        self.say(checked.problems)
        for note in checked.notes:
            if note not in self._noted:
                self.log(note, types.MessageType.Info)
        self._noted = checked.notes
        if not checked.problems:
            self.publish(self._found(checked, texts, unsaved), versions)

    def texts(self, held: Mapping[str, str]) -> Texts:
        """Files as ``held`` has them, else as on disk, with places as the editor counts them."""
        return Texts(held, self.workspace.position_codec)

    def _found(
        self, checked: Checked, texts: Texts, unsaved: Mapping[str, bytes]
    ) -> dict[str, Shown]:
        """What to show of each file, by path."""
        found: dict[str, Shown] = {}
        torn = [f for f in checked.failures if f.path in unsaved]
        if torn:
            # half a statement is on its way: what was found before stays until it is whole
            found = {path: list(shown) for path, shown in self._shown.items()}
            for failure in torn:
                found[failure.path] = [(diagnostics.failed(failure, texts), None)]
            return found
        for failure in checked.failures:
            entry = (diagnostics.failed(failure, texts), None)
            found.setdefault(failure.path, []).append(entry)
        capable = self.client_capabilities.text_document
        published = capable.publish_diagnostics if capable else None
        related = bool(published and published.related_information)
        for finding in checked.findings:
            shown = diagnostics.shown(finding, texts, self.uri, related=related)
            found.setdefault(finding.place.path, []).append((shown, finding))
        return found

    def publish(self, found: dict[str, Shown], versions: Mapping[str, int | None]) -> None:
        """Tell what each file has now, and of those that had something that it is gone."""
        for path in dict.fromkeys((*found, *self._shown)):
            entries = [entry for entry, _ in found.get(path, ())]
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(self.uri(path), entries, versions.get(path))
            )
        self.published += found != self._shown
        self._shown = found

    def uri(self, path: str) -> str:
        """The URI of a file, the editor's own where it is open."""
        uris: list[str] = list(self.workspace.text_documents)
        for uri in uris:
            if path_of(uri) == path:
                return uri
        return Path(path).as_uri()

    def version_of(self, uri: str) -> int | None:
        """The version of a file that is open, as the editor counts."""
        document = self.workspace.text_documents.get(uri)
        return document.version if document is not None else None

    def warn(self, message: str) -> None:
        """Say why what the editor asked for was not done."""
        shown = types.ShowMessageParams(types.MessageType.Warning, f"mla-guard: {message}")
        self.window_show_message(shown)

    def say(self, problems: tuple[str, ...]) -> None:
        """Show problems that were not there after the last check, and log them."""
        for problem in problems:
            if problem not in self._said:
                self.window_show_message(
                    types.ShowMessageParams(types.MessageType.Error, f"mla-guard: {problem}")
                )
                self.log(problem, types.MessageType.Error)
        self._said = problems

    def log(self, message: str, kind: types.MessageType) -> None:
        self.window_log_message(types.LogMessageParams(kind, f"mla-guard: {message}"))


def path_of(uri: str) -> str:
    """The file that a URI names, empty for other schemes (``untitled:``, ``git:``)."""
    return os.path.abspath(to_fs_path(uri) or "") if urlsplit(uri).scheme == "file" else ""


def _unsaved(path: str, text: str) -> bytes | None:
    """The bytes of an open file where they are not those on disk, else None."""
    data = text.encode("utf-8", "surrogatepass")
    try:
        on_disk = Path(path).read_bytes()
    except OSError:
        return None
    return data if data != on_disk.removeprefix(b"\xef\xbb\xbf") else None
