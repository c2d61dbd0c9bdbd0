"""What a name of one file means in another: which annotations and defaults can be copied."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from pathlib import PurePath

import libcst as cst

from lint_rules.facts import FileFacts, Import
from lint_rules.judge import Judge
from lint_rules.link import Member
from lint_rules.repairs.edits import Files, NoRepair
from lint_rules.repairs.source import walk

__all__ = ["annotation_text", "parameter_text", "parameters_of"]


def parameters_of(node: cst.FunctionDef) -> dict[str, cst.Param]:
    """The parameters of a definition by name, ``*args`` and ``**kwargs`` left out."""
    params = node.params
    return {
        p.name.value: p for p in (*params.posonly_params, *params.params, *params.kwonly_params)
    }


def parameter_text(judge: Judge, files: Files, model: Member, path: str, name: str) -> str:
    """The parameter ``name`` of ``model`` as the file at ``path`` can have it.

    With its default, and with its annotation where every name in it means the same there. Raises
    :class:`NoRepair` where the default does not.
    """
    source = files[model.owner.path]
    param = parameters_of(source.function(model.name, model.line))[name]
    said = annotation_text(judge, files, model, path, param.annotation)
    text = f"{name}: {said}" if said else name
    if param.default is None:
        return text
    if not _same_meaning(judge, param.default, model.owner.path, path, lazily=False):
        raise NoRepair(f"the default of {name} means nothing in {path}")
    return text + (" = " if said else "=") + source.code(param.default)


def annotation_text(
    judge: Judge, files: Files, model: Member, path: str, annotation: cst.Annotation | None
) -> str:
    """An annotation of ``model`` as the file at ``path`` can have it, empty where it cannot."""
    if annotation is None:
        return ""
    origin = model.owner.path
    lazily = _defers(judge.project.files[path])
    if _defers(judge.project.files[origin]) and not lazily:
        if any(isinstance(node, cst.BinaryOperation) for node in walk(annotation)):
            return ""  # what is never evaluated there need not be an expression that can be
    if not _same_meaning(judge, annotation.annotation, origin, path, lazily=lazily):
        return ""
    return files[origin].code(annotation.annotation)


def _defers(facts: FileFacts) -> bool:
    return any((e.module, e.name) == ("__future__", "annotations") for e in facts.imports)


def _same_meaning(judge: Judge, node: cst.CSTNode, origin: str, path: str, *, lazily: bool) -> bool:
    if origin == path:
        return True
    here, there = judge.project.files[origin].imports, judge.project.files[path].imports
    for name, deferred in _names(node):
        mine = [e for e in here if e.local == name]
        theirs = [e for e in there if e.local == name]
        if not mine and not theirs and hasattr(builtins, name):
            continue
        if not mine or not theirs or not _same_import(mine, origin, theirs, path):
            return False
        if all(e.typing for e in theirs) and not (lazily or deferred):
            return False
    return True


def _names(node: cst.CSTNode, deferred: bool = False) -> Iterator[tuple[str, bool]]:
    """The variables in an expression; ``deferred`` are those inside of quotes."""
    if isinstance(node, cst.Name):
        yield node.value, deferred
    elif isinstance(node, cst.Attribute):
        yield from _names(node.value, deferred)
    elif isinstance(node, cst.SimpleString):
        try:
            yield from _names(cst.parse_expression(str(node.evaluated_value)), True)
        except cst.ParserSyntaxError:
            return  # plain words, as in Literal["a b"]
    else:
        for child in node.children:
            yield from _names(child, deferred)


def _same_import(mine: Sequence[Import], origin: str, theirs: Sequence[Import], path: str) -> bool:
    beside = PurePath(origin).parent == PurePath(path).parent
    return any(
        (a.module, a.name, a.level) == (b.module, b.name, b.level) and (beside or not a.level)
        for a in mine
        for b in theirs
    )
