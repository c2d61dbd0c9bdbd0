"""What an editor is offered to do about findings: to repair them, or to ignore one.

That there is a repair is known at once. Whether it holds is known once the project was judged with
it, as ``mla-guard check --fix`` does: that is done for the one that is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from lint_rules.server import diagnostics
from lint_rules.server.actions import Insertion, ignoring
from lint_rules.server.child import ChildDied
from lint_rules.server.replaced import replaced
from lint_rules.server.session import Session, path_of
from lint_rules.server.texts import Texts, split_lines
from lint_rules.server.wire import AskRepairs, MakeRepairs, Repaired
from mla_guard.diagnostic import Diagnostic

__all__ = ["KINDS", "offered", "resolved"]

_FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.mla-guard"
KINDS = (types.CodeActionKind.QuickFix, _FIX_ALL)
_MOVED_ON = "the text is no longer what was checked: nothing was repaired"
_NO_REPAIR = "nothing was repaired: the finding would stay, or another one would come"


async def offered(ls: Session, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The actions for the diagnostics that an editor names, and for all of the file."""
    uri = params.text_document.uri
    path, source = path_of(uri), ls.workspace.get_text_document(uri).source
    findings = ls.findings(path)
    repairable = await _repairable(ls, [finding for _, finding in findings])
    found: list[types.CodeAction] = []
    if _asks_for(params.context, types.CodeActionKind.QuickFix.value):
        lines, texts = split_lines(source), ls.texts({path: source})
        for shown in params.context.diagnostics:
            if shown.source != diagnostics.SOURCE or not isinstance(shown.code, str):
                continue
            meant = [n for n, (d, f) in enumerate(findings) if f in repairable and _same(d, shown)]
            if meant:
                found.append(_repair(ls, path, f"Repair {shown.code}", meant[:1], shown))
            ignore = ignoring(shown.code, lines, shown.range.start.line + 1)
            if ignore is not None:
                found.append(
                    types.CodeAction(
                        f"Ignore {shown.code} here",
                        types.CodeActionKind.QuickFix,
                        diagnostics=[shown],
                        edit=types.WorkspaceEdit({uri: [_edit(texts, path, ignore)]}),
                    )
                )
    every = [n for n, (_, finding) in enumerate(findings) if finding in repairable]
    if every and _asks_for(params.context, _FIX_ALL):
        found.append(_repair(ls, path, "Repair what mla-guard can in this file", every, None))
    if not _resolves(ls):
        found = [await resolved(ls, action) for action in found]
        found = [action for action in found if action.edit is not None]
    return found


async def resolved(ls: Session, action: types.CodeAction) -> types.CodeAction:
    """The action with its edit; without one, and with a message, where nothing can be repaired."""
    if action.edit is None:
        assert isinstance(action.data, dict)
        path, numbers = str(action.data["path"]), list(action.data["findings"])
        if action.data["published"] != ls.published:
            ls.warn(_MOVED_ON)
            return action
        shown = ls.findings(path)
        action.edit = await _edited(ls, [shown[number][1] for number in numbers])
    return action


async def _repairable(ls: Session, findings: Sequence[Diagnostic]) -> frozenset[Diagnostic]:
    if not findings:
        return frozenset()
    try:
        asked = AskRepairs(tuple(findings), ls.unsaved(ls.held()))
        return (await ls.child.repairable(asked)).findings
    except ChildDied as error:
        ls.say((str(error),))
        return frozenset()


def _repair(
    ls: Session, path: str, title: str, numbers: list[int], shown: types.Diagnostic | None
) -> types.CodeAction:
    """The action that repairs the findings of these numbers in a file, its edit left open."""
    return types.CodeAction(
        title,
        _FIX_ALL if shown is None else types.CodeActionKind.QuickFix,
        diagnostics=None if shown is None else [shown],
        is_preferred=None if shown is None else True,
        data={"published": ls.published, "path": path, "findings": numbers},
    )


async def _edited(ls: Session, findings: Sequence[Diagnostic]) -> types.WorkspaceEdit | None:
    held = ls.held()
    try:
        made = await ls.child.repair(MakeRepairs(tuple(findings), ls.unsaved(held)))
    except ChildDied as error:
        ls.say((str(error),))
        return None
    if not made.after:
        ls.warn(_NO_REPAIR)
        return None
    now = ls.held()
    if any(path in now and now[path] != text for path, text in made.before.items()):
        ls.warn(_MOVED_ON)
        return None
    return _workspace_edit(ls, made)


def _workspace_edit(ls: Session, made: Repaired) -> types.WorkspaceEdit:
    """Bound to the versions of open files where the editor understands that."""
    codec = ls.workspace.position_codec
    changes = {
        ls.uri(path): replaced(made.before[path], text, codec) for path, text in made.after.items()
    }
    workspace = ls.client_capabilities.workspace
    edits = workspace.workspace_edit if workspace else None
    if not (edits and edits.document_changes):
        return types.WorkspaceEdit(changes)
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(
                types.OptionalVersionedTextDocumentIdentifier(uri, ls.version_of(uri)), edit
            )
            for uri, edit in changes.items()
        ]
    )


def _asks_for(context: types.CodeActionContext, kind: str) -> bool:
    """Whether an editor wants actions of a kind: all are wanted where none is named."""
    names = [getattr(k, "value", k) for k in context.only or [kind]]
    return any(f"{kind}.".startswith(f"{name}.") for name in names)


def _resolves(ls: Session) -> bool:
    """Whether the editor asks for the edit of the action that is chosen."""
    capable = ls.client_capabilities.text_document
    actions = capable.code_action if capable else None
    support = actions.resolve_support if actions else None
    return bool(actions and actions.data_support and support and "edit" in support.properties)


def _same(shown: types.Diagnostic, asked: types.Diagnostic) -> bool:
    """Whether two are one, whatever else an editor gives back of it."""
    return (shown.range, shown.code, shown.message) == (asked.range, asked.code, asked.message)


def _edit(texts: Texts, path: str, edit: Insertion) -> types.TextEdit:
    line = texts.lines(path)[edit.line - 1]
    return types.TextEdit(texts.columns(line, edit.line, edit.column, edit.column), edit.text)
