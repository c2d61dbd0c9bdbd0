"""The features of the language server: what the editor asks and tells."""

from __future__ import annotations

import os
import sys

from lsprotocol import types

from lint_rules.server.child import ChildDied
from lint_rules.server.offered import KINDS, offered, resolved
from lint_rules.server.session import Session, path_of
from lint_rules.server.texts import split_lines
from lint_rules.server.wire import DescribeHook

__all__ = ["create", "serve"]

_TYPING_PAUSE = 0.3
"""Seconds without a change after which what is being written is checked."""
_FILES_PAUSE = 0.1
"""Seconds within which the changes of one checkout arrive, file by file."""
_WATCHED = ("**/*.py", "**/pyproject.toml", "**/.gitignore")


def create() -> Session:
    """A server with every feature."""
    server = Session()

    @server.feature(types.INITIALIZED)
    async def initialized(ls: Session, params: types.InitializedParams) -> None:
        ls.start()
        workspace = ls.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace else None
        if watching and watching.dynamic_registration:
            watchers = [types.FileSystemWatcher(pattern) for pattern in _WATCHED]
            await ls.client_register_capability_async(
                types.RegistrationParams(
                    [
                        types.Registration(
                            "watched-files",
                            types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                            types.DidChangeWatchedFilesRegistrationOptions(watchers),
                        )
                    ]
                )
            )

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Session, params: types.DidOpenTextDocumentParams) -> None:
        ls.checking.ask()

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: Session, params: types.DidChangeTextDocumentParams) -> None:
        ls.checking.ask(_TYPING_PAUSE)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: Session, params: types.DidSaveTextDocumentParams) -> None:
        ls.checking.ask()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Session, params: types.DidCloseTextDocumentParams) -> None:
        ls.checking.ask()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def files_changed(ls: Session, params: types.DidChangeWatchedFilesParams) -> None:
        ls.checking.ask(_FILES_PAUSE)

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders_changed(ls: Session, params: types.DidChangeWorkspaceFoldersParams) -> None:
        ls.checking.ask()

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(ls: Session, params: types.HoverParams) -> types.Hover | None:
        return await _hover(ls, params)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=list(KINDS), resolve_provider=True),
    )
    async def actions(ls: Session, params: types.CodeActionParams) -> list[types.CodeAction]:
        return await offered(ls, params)

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(ls: Session, params: types.CodeAction) -> types.CodeAction:
        return await resolved(ls, params)

    @server.feature(types.SHUTDOWN)
    def shut_down(ls: Session, params: None) -> None:
        ls.stop()

    return server


async def _hover(ls: Session, params: types.HoverParams) -> types.Hover | None:
    uri = params.text_document.uri
    path, document = path_of(uri), ls.workspace.get_text_document(uri)
    lines = split_lines(document.source)
    number = params.position.line + 1
    if not path or number > len(lines):
        return None
    server = document.position_codec.position_from_client_units(lines, params.position)
    try:
        found = await ls.child.describe(DescribeHook(path, number, server.character + 1))
    except ChildDied as error:
        ls.say((str(error),))
        return None
    if not found.markdown:
        return None
    span = ls.texts({}).columns(lines[number - 1], number, found.start - 1, found.end - 1)
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, found.markdown), span)


def serve() -> None:
    """Serve the editor on standard input and output until it ends the session.

    What anything else prints goes to standard error, where editors keep their log.
    """
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        create().start_io(stdout=answers)
