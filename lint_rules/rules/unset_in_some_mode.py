"""MLA205: what a hook keeps is filled mode by mode, and stays None in a mode that it forgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lint_rules.conditions import atoms, conjunction, formula, negation, satisfiable, show
from lint_rules.facts import (
    Attr,
    Bind,
    Call,
    Compare,
    Const,
    Expr,
    Function,
    Name,
    Read,
    Write,
    roots_of,
)
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member
from lint_rules.types import Scope
from mla_guard.diagnostic import Diagnostic

__all__ = ["check"]


@dataclass(frozen=True, slots=True)
class _Dispatch:
    """``local`` is None first and set in branches that ask ``modes`` of ``subject`` only."""

    local: str
    binds: tuple[Bind, ...]
    subject: Expr
    modes: dict[Expr, None]
    unset: Expr


def check(judge: Judge) -> Iterator[Diagnostic]:
    return judge.each(judge.view.backends, _inside)


def _inside(judge: Judge, klass: Klass) -> Iterator[Diagnostic]:
    for method in klass.facts.methods:
        scope = judge.view.types.scope(klass, method)
        for dispatch in _dispatches(scope):
            kept = _kept(scope, dispatch)
            reader = _reader(klass, kept.name, dispatch) if kept is not None else None
            if kept is not None and reader is not None:
                yield _diagnose(judge, scope, dispatch, kept, reader)


def _dispatches(scope: Scope) -> Iterator[_Dispatch]:
    for local, binds in scope.binds.items():
        first, *others = binds
        if local in scope.params or first.cond != -1 or first.value != Const("None"):
            continue
        ways = [_way(scope, bind.cond) for bind in others]
        if len(ways) < 2 or () in ways:
            continue
        asked = [_asked(scope, way) for way in ways]
        for subject in (s for s in asked[0] if all(s in found for found in asked)):
            modes = dict.fromkeys(mode for found in asked for mode in found[subject])
            unset = conjunction(negation(conjunction(way)) for way in ways)
            if len(modes) > 1 and not _meant(scope, subject, unset):
                yield _Dispatch(local, tuple(binds), subject, modes, unset)


def _meant(scope: Scope, subject: Expr, unset: Expr) -> bool:
    """Whether the local stays None in a mode that the method knows, where None is meant then."""
    for cond in range(len(scope.function.conditions)):
        way = _way(scope, cond)
        for mode in _asked(scope, way[-1:]).get(subject, ()):
            if satisfiable([*way, mode, unset]):
                return True
    return False


def _way(scope: Scope, cond: int) -> tuple[Expr, ...]:
    return tuple(formula(part) for part in scope.path_of(cond))


def _asked(scope: Scope, way: Sequence[Expr]) -> dict[Expr, dict[Expr, None]]:
    """What is asked of parameters and locals on the way: ``mode.is_x()`` and ``mode == X``."""
    found: dict[Expr, dict[Expr, None]] = {}
    for part in way:
        for atom in atoms(formula(part)):
            subject = None
            if isinstance(atom, Call) and isinstance(atom.func, Attr) and not atom.args:
                subject = atom.func.value
            elif isinstance(atom, Compare) and atom.op == "==" and isinstance(atom.right, Attr):
                subject = atom.left
            if subject is not None and roots_of(subject) not in ("", scope.receiver):
                found.setdefault(subject, {})[atom] = None
    return found


def _kept(scope: Scope, dispatch: _Dispatch) -> Write | None:
    """Where the method stores the local in an attribute of its object, None as it may be."""
    last = dispatch.binds[-1].line
    is_none = Compare(Name(dispatch.local), "is", Const("None"))
    for event in scope.function.writes:
        if (
            event.value == Name(dispatch.local)
            and event.target == Name(scope.receiver)
            and event.line > last
            and satisfiable([*_way(scope, event.cond), dispatch.unset, is_none])
        ):
            return event
    return None


def _reader(klass: Klass, attr: str, dispatch: _Dispatch) -> tuple[Member, Read] | None:
    """A method of the class that takes for granted that the attribute is not None."""
    modes = {_mode(mode) for mode in dispatch.modes}
    for member in klass.members.values():
        function = member.function
        if function is None or not function.params:
            continue
        kept = Attr(Name(function.params[0].name), attr)
        for event in function.events:
            if isinstance(event, Read) and not (event.probe or event.caught):
                asked = _conditions(function, event.cond)
                if _stands_for(function, event, kept) and not any(
                    {atom, getattr(atom, "left", None)} & {event.value, kept}
                    or _mode(atom) in modes
                    for atom in asked
                ):
                    return member, event
    return None


def _mode(atom: Expr) -> Expr | str | None:
    """What a condition asks of a mode, whatever the mode is called there."""
    if isinstance(atom, Call) and isinstance(atom.func, Attr):
        return atom.func.name
    return atom.right if isinstance(atom, Compare) and atom.op == "==" else None


def _conditions(function: Function, cond: int) -> Iterator[Expr]:
    """The atoms of the conditions under which an event happens."""
    while cond != -1:
        cond, expr, _ = function.conditions[cond]
        yield from atoms(formula(expr))


def _stands_for(function: Function, event: Read, kept: Attr) -> bool:
    """Whether what is read from is the attribute, or a local that is nothing else."""
    if event.value == kept:
        return True
    binds = [bind for bind in function.binds if Name(bind.name) == event.value]
    return len(binds) == 1 and binds[0].value == kept and binds[0].cond in (-1, event.cond)


def _diagnose(
    judge: Judge, scope: Scope, dispatch: _Dispatch, kept: Write, reader: tuple[Member, Read]
) -> Diagnostic:
    member, read = reader
    local, attr = dispatch.local, kept.name
    modes = [show(mode) for mode in dispatch.modes]
    return Diagnostic(
        "MLA205",
        "warning",
        f"{scope.symbol} leaves {attr} None in a mode other than {', '.join(modes)}; "
        f"{member.symbol} reads {read.name} of it: AttributeError",
        judge.places.at(scope.path, dispatch.binds[0].line, local),
        scope.symbol,
        (
            judge.places.related(scope.path, kept.line, attr, f"{local} is kept as {attr}"),
            judge.places.related(
                member.owner.path, read.line, read.name, f"{member.symbol} takes it for set"
            ),
        ),
        (f"{local} is None first and is set only where {' or '.join(modes)}",),
        f"Latent: it fails in the first mode that is none of these. "
        f"Set {local} in an else, or raise there.",
    )
