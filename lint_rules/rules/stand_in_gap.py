"""MLA307: a class that stands in for another, and lacks what their common callers ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lint_rules.conditions import conjunction, formula
from lint_rules.exposure import View
from lint_rules.facts import And, Call, Compare, Name, Or
from lint_rules.gaps import arguments, is_guarded
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member, is_abstract, kind_of, shape
from lint_rules.types import Typed
from lint_rules.uses import Use
from mla_guard.diagnostic import Diagnostic, Related
from mla_guard.drift import binding_errors

__all__ = ["check"]

_SHOWN = 3


def check(judge: Judge) -> Iterator[Diagnostic]:
    if not judge.project.stand_ins:
        return
    pairs = judge.project.stand_ins
    view = View(judge.project, [first for first, _ in pairs])
    uses = sorted(
        view.uses_of({name for pair in pairs for k in pair for name in k.members}).items()
    )
    for first, second in pairs:
        for klass, other in ((second, first), (first, second)):
            yield from _gaps(judge, view, uses, klass, other)


def _gaps(
    judge: Judge, view: View, asked: Sequence[tuple[str, list[Use]]], klass: Klass, other: Klass
) -> Iterator[Diagnostic]:
    """What callers of ``other`` ask for, and ``klass`` does not answer as they ask it."""
    if not klass.complete or "__getattr__" in klass.members:
        return
    for name, uses in asked:
        member, theirs = klass.members.get(name), other.members.get(name)
        if theirs is None or name.startswith("_") or (member is None and name in klass.stored):
            continue
        broken = [
            (use, reasons)
            for use in uses
            if not is_guarded(use)
            and _reaches(view, use, klass, other)
            and (reasons := _refusal(use, member, theirs))
        ]
        if broken:
            yield _diagnose(judge, klass, member, theirs, broken)


def _reaches(view: View, use: Use, klass: Klass, other: Klass) -> bool:
    """Whether a use is of the pair, and lets a ``klass`` through, whichever of them it declares."""
    if not (use.typed.holds(klass) or use.typed.holds(other)):
        return False
    if _named(use) or (use.scope.klass is not None and use.scope.klass.is_a(other)):
        return False
    either = use.typed.merged(Typed(frozenset([klass]), outer=use.typed.outer))
    return replace(use, typed=either).admits(klass, view)


def _named(use: Use) -> bool:
    """Whether a guard says which of them was asked for: ``if name == "x": make(name).hook()``."""
    base = use.scope.single(use.base.id) if isinstance(use.base, Name) else use.base
    if not isinstance(base, Call):
        return False
    path = conjunction(map(formula, use.scope.path_of(use.cond)))
    return any(
        all(
            isinstance(option, Compare) and option.op in {"==", "in"} and option.left in base.args
            for option in (part.items if isinstance(part, Or) else (part,))
        )
        for part in (path.items if isinstance(path, And) else (path,))
    )


def _refusal(use: Use, member: Member | None, theirs: Member) -> tuple[str, ...]:
    """Why ``use``, which the other class answers, fails on this one."""
    if member is None:
        return ("has none",)
    if use.call is None or member.function is None or theirs.function is None:
        return ()
    if "property" in (kind_of(member.function), kind_of(theirs.function)):
        return ()
    if is_abstract(member.function) and is_abstract(theirs.function):
        return ()  # two interfaces that differ are meant for different callers
    call = arguments(use.call)
    if binding_errors(shape(theirs.function), call):
        return ()
    return binding_errors(shape(member.function), call)


def _diagnose(
    judge: Judge,
    klass: Klass,
    member: Member | None,
    theirs: Member,
    broken: list[tuple[Use, tuple[str, ...]]],
) -> Diagnostic:
    name, other = theirs.name, theirs.owner
    # where the declared type is either class, the stand-in certainly comes to the call
    broken = sorted(broken, key=lambda item: not item[0].typed.holds(klass))
    certain = broken[0][0].typed.holds(klass)
    error = "AttributeError" if member is None else "TypeError"
    lacks = f"has no {name}" if member is None else f"takes other arguments in {name}"
    asking = dict.fromkeys(
        judge.places.related(u.scope.path, u.line, name, f"{u.scope.symbol} asks for it here")
        for u, _ in broken
    )
    first, reasons = broken[0]
    verb = "calls" if first.kind == "call" else "reads"
    latent = (
        f"Latent: the callers declare what they hold as {other.name} alone. " if not certain else ""
    )
    return Diagnostic(
        "MLA307",
        "error" if certain else "warning",
        f"{klass.name} stands in for {other.name}, but {lacks}, which {first.scope.symbol} "
        f"{verb}: {error}",
        judge.places.klass(klass) if member is None else judge.places.member(member),
        f"{klass.qualname}.{name}" if member is None else member.symbol,
        (
            Related(judge.places.member(theirs), f"{theirs.symbol} is defined here"),
            *list(asking)[:_SHOWN],
        ),
        tuple(
            f"{klass.name}{'' if member is None else '.' + name} {reason}"
            if member is not None
            else f"{len(broken)} use{'s' * (len(broken) != 1)} of it, none behind a probe"
            for reason in reasons
        ),
        f"{latent}Define it on {klass.name} as {other.name} does.",
    )
