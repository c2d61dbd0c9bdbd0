"""MLA201: a constructor runs its parent's, where that only keeps what it is given."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from lint_rules.facts import Attr, CallEvent, Const, Expr, Function, Name, Read, Seq, Write
from lint_rules.judge import Judge
from lint_rules.link import Klass, kind_of, shape
from lint_rules.repairs.edits import Edit, Files, NoRepair, Repair, broken, repaired
from lint_rules.repairs.probes import is_probed
from lint_rules.rules.skipped_parent_init import Breach, breaches
from mla_guard.diagnostic import Diagnostic
from mla_guard.drift import KEYWORD_ONLY, POSITIONAL_OR_KEYWORD

__all__ = ["repairs"]


def repairs(judge: Judge, files: Files, findings: Collection[Diagnostic]) -> Iterator[Repair]:
    faults = ((breach.diagnostic, breach) for breach in breaches(judge))
    return repaired(findings, faults, lambda breach: [_calling(judge, files, breach)])


def _calling(judge: Judge, files: Files, breach: Breach) -> Edit:
    member, skipped = breach.member, breach.skipped
    klass, mine, theirs = member.owner, member.function, skipped.function
    assert mine is not None
    assert theirs is not None
    if member.name != "__init__" or klass.after(klass, "__init__") != skipped:
        raise NoRepair("super() would run something else")
    if any(len(k.bases) > 1 for k in (klass, *klass.descendants)):
        raise NoRepair("with several bases, super() may run something else")
    if any(_is_init(e) for e in mine.events if isinstance(e, CallEvent)):
        raise NoRepair("it runs another constructor on purpose")
    _check_plain(judge, klass, theirs)
    source = files[klass.path]
    node = source.function("__init__", mine.line)
    if not isinstance(node.body, cst.IndentedBlock):
        raise NoRepair("the body shares the line of its head")
    statements = list(node.body.body)
    at = source.before(statements[0])
    if node.get_docstring() is not None:
        if len(statements) == 1:
            raise NoRepair("there is no body")
        at = source.before(statements[1])
    indent = source.indentation(source.span(statements[0])[0])
    lines = broken(
        "super().__init__", _handed(mine, theirs), "", indent, source.module.default_indent
    )
    return Edit(source.path, at, at, "".join(f"{indent}{line}\n" for line in lines))


def _is_init(event: CallEvent) -> bool:
    return isinstance(event.call.func, Attr) and event.call.func.name == "__init__"


def _check_plain(judge: Judge, klass: Klass, init: Function) -> None:
    """Refuse a constructor that does more than to keep what it is given, or constants."""
    receiver, *others = (p.name for p in init.params)
    for event in init.events:
        if isinstance(event, Write) and event.target == Name(receiver) and event.cond == -1:
            member = klass.members.get(event.name)
            if event.value is None or not _is_given(event.value, others):
                raise NoRepair(f"{event.name} is computed")
            if member is not None and member.function is not None:
                raise NoRepair(f"{klass.name} has a method or property {event.name}")
            if is_probed(judge, event.name):
                raise NoRepair(f"{event.name} is asked for with hasattr or getattr")
        elif not isinstance(event, Read):
            raise NoRepair("the constructor does more than to keep what it is given")


def _is_given(value: Expr, parameters: Collection[str]) -> bool:
    if isinstance(value, Attr):
        return _is_given(value.value, parameters)
    if isinstance(value, Seq):
        return all(_is_given(item, parameters) for item in value.items)
    return isinstance(value, Const) or (isinstance(value, Name) and value.id in parameters)


def _handed(mine: Function, theirs: Function) -> list[str]:
    """The arguments: parameters of the same name."""
    known = {p.name for p in mine.params}
    handed = []
    for p in shape(theirs):
        if p.kind not in (POSITIONAL_OR_KEYWORD, KEYWORD_ONLY):
            raise NoRepair("what it takes is open")
        if p.name in known:
            plain = p.required and p.kind == POSITIONAL_OR_KEYWORD
            handed.append(p.name if plain else f"{p.name}={p.name}")
        elif p.required:
            raise NoRepair(f"nothing here is called {p.name}")
    if kind_of(theirs) != "method":
        raise NoRepair("it is no plain method")
    return handed
