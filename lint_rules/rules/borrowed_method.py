"""MLA204: a method taken from an unrelated class, which asks its new owner for what it lacks."""

from __future__ import annotations

from collections.abc import Iterator

from lint_rules.conditions import FALSE, conjunction, formula, satisfiable, substitute
from lint_rules.facts import Attr, CallEvent, Const, Expr, Name, Read
from lint_rules.flow import Flow, Reading
from lint_rules.frames import SELF
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member
from mla_guard.diagnostic import Diagnostic, Related

__all__ = ["check", "reached"]


def check(judge: Judge) -> Iterator[Diagnostic]:
    for klass in judge.classes:
        if klass.borrowed and klass.complete and "__getattr__" not in klass.members:
            for name, member in klass.own.items():
                if member.attr is not None and member.function is not None:
                    missing = _missing(judge, klass, member)
                    if missing:
                        yield _diagnose(judge, member, klass.borrowed[name], missing)


def _missing(judge: Judge, klass: Klass, member: Member) -> dict[str, Reading]:
    """What the borrowed body itself asks of its instance and no such instance has."""
    flow = judge.flow(klass)
    lacking = {name for name in _asked(member) if not _exists(judge, klass, name)}
    found: dict[str, Reading] = {}
    for reading in flow.readings([member], lacking):
        if reading.function is member.function and reached(judge, klass, flow, reading):
            found.setdefault(reading.attr, reading)
    return found


def _asked(member: Member) -> Iterator[str]:
    function = member.function
    assert function is not None
    receiver = Name(function.params[0].name) if function.params else None
    for event in function.events:
        if isinstance(event, Read) and event.value == receiver:
            yield event.name
        elif isinstance(event, CallEvent) and isinstance(event.call.func, Attr):
            if event.call.func.value == receiver:
                yield event.call.func.name


def _exists(judge: Judge, klass: Klass, name: str) -> bool:
    """Whether the borrower has the name, declares it, or leaves it to a class below it."""
    return judge.view.written_outside(name) or any(
        name in k.members or name in k.stored or any(a.name == name for a in parent.facts.attrs)
        for k in (klass, *klass.descendants)
        for parent in k.mro
    )


def reached(judge: Judge, klass: Klass, flow: Flow, reading: Reading) -> bool:
    """Whether a class's flags leave the way to a reading open, and no guard asks for it."""

    def constant(item: Expr) -> Expr | None:
        if isinstance(item, Attr) and item.value == SELF:
            value = judge.view.constant(klass, item.name)
            return None if value is None else Const(repr(value))
        return None

    path = [formula(substitute(flow.normal(part), constant)) for part in reading.path]
    if any(repr(Const(repr(reading.attr))) in repr(part) for part in path):
        return False
    return conjunction(path) != FALSE and satisfiable(path)


def _diagnose(
    judge: Judge, member: Member, lender: Member, missing: dict[str, Reading]
) -> Diagnostic:
    klass = member.owner
    first = next(iter(missing))
    names = ", ".join(missing)
    built = judge.built(klass)
    latent = "" if built else f"Latent: no construction of {klass.name} was found. "
    return Diagnostic(
        "MLA204",
        "error" if built else "warning",
        f"{member.symbol} is {lender.symbol}, which asks self for {names}; "
        f"{klass.name} has no {first}: AttributeError",
        judge.places.member(member),
        member.symbol,
        (
            Related(judge.places.member(lender), f"{lender.symbol} is defined here"),
            *(
                judge.places.related(lender.owner.path, r.line, attr, f"it asks self for {attr}")
                for attr, r in missing.items()
            ),
            *built[:1],
        ),
        tuple(f"neither {klass.name} nor a parent of it has {attr}" for attr in missing),
        f"{latent}Take over {first} too, or give {klass.name} a method of its own.",
    )
