"""MLA309: a hook leaves a case to its parent, and nothing that runs reads what that stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lint_rules.conditions import formula, satisfiable, show
from lint_rules.dispatch import super_target
from lint_rules.facts import CallEvent, Const, Expr, Function, Name, Read
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member, is_abstract
from mla_guard.diagnostic import Diagnostic, Related

__all__ = ["check"]


@dataclass(frozen=True, slots=True)
class _Fallback:
    """``member`` leaves a ``case`` to ``target`` above by ``event``, which alone keeps ``stored``.

    In other cases, and not in this one, the member stores ``kept`` itself.
    """

    member: Member
    target: Member
    event: CallEvent
    case: Expr
    stored: frozenset[str]
    kept: frozenset[str]


def check(judge: Judge) -> Iterator[Diagnostic]:
    return judge.each(judge.view.backends, _inside)


def _inside(judge: Judge, klass: Klass) -> Iterator[Diagnostic]:
    if not klass.complete or "__getattr__" in klass.members or judge.view.in_steps(klass):
        return
    for member in klass.own.values():
        fallback = _fallback(judge, klass, member)
        readers = _replaced(klass, fallback) if fallback is not None else []
        if fallback is not None and readers and not _is_read(judge, klass, fallback):
            yield _diagnose(judge, fallback, readers)


def _fallback(judge: Judge, klass: Klass, member: Member) -> _Fallback | None:
    function = member.function
    if function is None or not function.params or member.name == "__init__":
        return None
    calls = [
        (event, target)
        for event in function.calls
        if (target := super_target(event.call, klass, klass, function.params[0].name)) is not None
        and target.name == member.name
    ]
    if not calls or any(_always(function, event.cond) for event, _ in calls):
        return None
    event, target = calls[0]
    if target.function is None or is_abstract(target.function):
        return None
    above, own = _stored(target.function), _stored(function)
    scope = judge.view.types.scope(klass, function)
    case = scope.path_of(event.cond)
    fresh = {
        write.name
        for write in function.writes
        if write.value != Const("None")
        and satisfiable([formula(part) for part in (*case, *scope.path_of(write.cond))])
    }
    if above - own and own - above - fresh:
        return _Fallback(member, target, event, case[-1], above - own, own - above - fresh)
    return None


def _always(function: Function, cond: int) -> bool:
    """Whether an event happens in every call that does not raise."""
    while cond != -1:
        cond, _, fatal = function.conditions[cond]
        if not fatal:
            return False
    return True


def _stored(function: Function) -> frozenset[str]:
    receiver = Name(function.params[0].name) if function.params else None
    return frozenset(write.name for write in function.writes if write.target == receiver)


def _read(function: Function) -> frozenset[str]:
    receiver = Name(function.params[0].name) if function.params else None
    return frozenset(e.name for e in function.events if isinstance(e, Read) and e.value == receiver)


def _replaced(klass: Klass, fallback: _Fallback) -> list[tuple[Member, Member]]:
    """The methods that read what the member keeps, in place of those that read what is stored."""
    found: list[tuple[Member, Member]] = []
    for name, member in klass.own.items():
        above = klass.after(klass, name)
        if name == fallback.member.name or above is None:
            continue
        if member.function is not None and above.function is not None:
            own, replaced = _read(member.function), _read(above.function)
            if own & fallback.kept and replaced & fallback.stored and not own & fallback.stored:
                found.append((member, above))
    return found


def _is_read(judge: Judge, klass: Klass, fallback: _Fallback) -> bool:
    """Whether a hook of the class reads what the parent stores."""
    return any(
        reading.function.name != fallback.member.name
        for reading in judge.flow(klass).readings(judge.hooks(klass), fallback.stored)
    )


def _diagnose(
    judge: Judge, fallback: _Fallback, readers: list[tuple[Member, Member]]
) -> Diagnostic:
    member, target = fallback.member, fallback.target
    reader, replaced = readers[0]
    assert reader.function is not None
    assert replaced.function is not None
    stored = min(fallback.stored & _read(replaced.function))
    kept = min(fallback.kept & _read(reader.function))
    return Diagnostic(
        "MLA309",
        "warning",
        f"{member.symbol} leaves a case to {target.symbol}, which stores {stored}; nothing that "
        f"{member.owner.name} runs reads it, {reader.symbol} reads {kept}",
        judge.places.at(member.owner.path, fallback.event.line, member.name),
        member.symbol,
        (
            Related(judge.places.member(target), f"{target.symbol} stores {stored}"),
            Related(judge.places.member(replaced), f"{replaced.symbol} reads {stored}"),
            *(
                Related(judge.places.member(r), f"{r.symbol} replaces {above.symbol}")
                for r, above in readers
            ),
        ),
        (f"the case is {show(formula(fallback.case))}",),
        f"{kept} is None there, or what an earlier call left. Let {reader.name} leave the same "
        f"case to {replaced.symbol}.",
    )
