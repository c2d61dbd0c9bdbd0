"""MLA303: a wrapper that delegates a hook to a backend which has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lint_rules.exposure import Delegation, View, Wrapper
from lint_rules.facts import Attr, Call, CallEvent, Expr, IfElse, Name, dotted
from lint_rules.gaps import LINEAGES, lineages_of
from lint_rules.judge import Judge
from lint_rules.link import Klass
from lint_rules.types import Scope
from mla_guard.diagnostic import Diagnostic, Related, Severity

__all__ = ["Breach", "breaches", "check"]


@dataclass(frozen=True, slots=True)
class Breach:
    """A finding, the delegation that it is about, and the held classes that lack the hook."""

    diagnostic: Diagnostic
    wrapper: Wrapper
    delegation: Delegation
    lacking: tuple[Klass, ...]


def check(judge: Judge) -> Iterator[Diagnostic]:
    return (breach.diagnostic for breach in breaches(judge))


def breaches(judge: Judge) -> Iterator[Breach]:
    """Every finding, with what it is about."""
    for view in (judge.view, judge.beside):
        for wrapper in view.wrappers:
            yield from _over_promised(judge, view, wrapper)


def _over_promised(judge: Judge, view: View, wrapper: Wrapper) -> Iterator[Breach]:
    # a pool is asked by code that knows of which kind it is, so that tests of the kind show nothing
    shown = _shown(judge, wrapper) if view is judge.view else {}
    said: set[str] = set()
    for delegation in wrapper.delegations:
        if delegation.optional or delegation.call is None or delegation.name in said:
            continue
        if delegation.scope.klass is not wrapper.klass or _asked(delegation):
            continue
        if view.written_outside(delegation.name):
            continue
        lacking = [
            (klass, evidence)
            for attr in sorted(delegation.attrs)
            for klass, evidence in shown.get(attr, ())
            if view.exposure(klass, delegation.name).kind == "absent"
        ]
        lacking = lacking or _of_its_own(judge, view, wrapper, delegation)
        severity: Severity = "error" if lacking else "warning"
        lacking = lacking or _outside_of_promise(judge, view, wrapper, delegation)
        if lacking:
            said.add(delegation.name)
            said_of = _diagnose(judge, wrapper, delegation, lacking, severity)
            yield Breach(said_of, wrapper, delegation, tuple(k for k, _ in lacking))


def _asked(delegation: Delegation) -> bool:
    """Whether a guard asks for the name, for what an object is, or for the wrapper's own state."""
    text = repr(delegation.scope.path_of(delegation.cond))
    own = repr(Name(delegation.scope.receiver))
    return any(asked in text for asked in (repr(delegation.name), "isinstance", own))


def _of_its_own(
    judge: Judge, view: View, wrapper: Wrapper, delegation: Delegation
) -> list[tuple[Klass, Related]]:
    """The backends without the hook that the wrapper's own code builds, beside some that have it.

    A hook that few classes know is for what one of them can do; that its callers ask first is
    likely then. A subclass may replace what a parent builds, so that only the class that does both
    is judged.
    """
    name = delegation.name
    defining = [k for k in view.backends if k.root is wrapper.klass.root and name in k.own]
    if delegation.scope.function.name != name or len(lineages_of(defining)) < LINEAGES:
        return []
    built: dict[Klass, Related] = {}
    for attr in sorted(delegation.attrs):
        for owner, function, write in wrapper.klass.stored.get(attr, ()):
            if owner is wrapper.klass and write.value is not None:
                scope = view.types.scope(owner, function)
                place = judge.places.at(scope.path, write.line, attr)
                for klass in _constructed(scope, write.value):
                    if klass.root is wrapper.klass.root:
                        message = f"{scope.symbol} builds it as a {klass.name}"
                        built.setdefault(klass, Related(place, message))
    lacking = [k for k in built if view.exposure(k, name).kind == "absent"]
    return [(k, built[k]) for k in lacking] if len(lacking) < len(built) else []


def _constructed(scope: Scope, value: Expr) -> Iterator[Klass]:
    """The classes of which ``value`` is built, named or kept in a local by that name."""
    if isinstance(value, IfElse):
        yield from _constructed(scope, value.then)
        yield from _constructed(scope, value.other)
    elif isinstance(value, Call):
        func = value.func
        binds = scope.binds.get(func.id, ()) if isinstance(func, Name) else ()
        for named in [bind.value for bind in binds] or [func]:
            if name := dotted(named):
                yield from scope.types.project.resolve(scope.path, name)


def _outside_of_promise(
    judge: Judge, view: View, wrapper: Wrapper, delegation: Delegation
) -> list[tuple[Klass, Related]]:
    """The backends of another family that lack a hook, which the wrapper's base class answers.

    Whoever calls the hook counts on an answer from every backend of the wrapper's family; the base
    class of what it holds promises none, and some of its backends have it.
    """
    name, root = delegation.name, wrapper.klass.root
    declared = root.method(name) if root is not None else None
    if declared is None or declared.function is None or declared.function.body == "raise":
        return []
    if delegation.scope.function.name != name:
        return []
    inner = {k for attr in delegation.attrs for k in wrapper.held[attr].classes}
    evidence = Related(
        judge.places.member(declared), f"{declared.symbol} answers for every backend of its family"
    )
    found: list[tuple[Klass, Related]] = []
    for family in sorted(inner, key=lambda k: (k.path, k.line)):
        if family is not family.root or family is root:
            continue
        if view.exposure(family, name).kind != "absent":
            continue
        below = sorted(family.descendants, key=lambda k: (k.path, k.line))
        lacking = [k for k in below if view.exposure(k, name).kind == "absent"]
        if len(lacking) < len(below):
            found += [(k, evidence) for k in lacking]
    return found


def _shown(judge: Judge, wrapper: Wrapper) -> dict[str, list[tuple[Klass, Related]]]:
    """For each held attribute the concrete classes that the tree shows it to hold, and where.

    Shown by a construction of the wrapper around a backend of known class, or else by an
    ``isinstance`` test of what it holds; an annotation with the root alone shows nothing.
    """
    found: dict[str, dict[Klass, Related]] = {}
    open_: set[str] = set()

    def note(attr: str, klass: Klass, scope: Scope, line: int, what: str) -> None:
        if klass is not klass.root and klass.root in judge.view.roots:
            place = judge.places.at(scope.path, line, klass.name)
            found.setdefault(attr, {}).setdefault(klass, Related(place, f"{scope.symbol} {what}"))

    for built in judge.view.constructions(wrapper):
        if not built.classes or "isinstance" in repr(built.scope.path_of(built.event.cond)):
            open_.add(built.attr)
            continue
        for klass in built.classes:
            what = f"builds it around a {klass.name}"
            note(built.attr, klass, built.scope, built.event.line, what)
    settled = set(found) - open_
    for member in wrapper.klass.members.values():
        if member.function is None or member.owner is wrapper.klass.root:
            continue
        scope = judge.view.types.scope(member.owner, member.function)
        for event in member.function.events:
            if not isinstance(event, CallEvent):
                continue
            call = event.call
            if call.func == Name("isinstance") and len(call.args) == 2:
                for attr in judge.view.provenance(wrapper, call.args[0], scope) - settled:
                    for klass in judge.view.classes_of(call.args[1], scope.path):
                        note(attr, klass, scope, event.line, f"expects it to hold a {klass.name}")
    return {attr: list(classes.items()) for attr, classes in found.items()}


def _diagnose(
    judge: Judge,
    wrapper: Wrapper,
    delegation: Delegation,
    lacking: list[tuple[Klass, Related]],
    severity: Severity,
) -> Diagnostic:
    name = delegation.name
    klass, evidence = lacking[0]
    attr = " or ".join(f"self.{a}" for a in sorted(delegation.attrs))
    assert delegation.call is not None
    method = delegation.scope.symbol
    where = delegation.call.func
    target = where.name if isinstance(where, Attr) else name
    if isinstance(where, Name) and delegation.delegated:
        target = where.id
    return Diagnostic(
        "MLA303",
        severity,
        f"{method} hands {name} to {attr} unconditionally, but {klass.name}, "
        f"which it can hold, has none: AttributeError",
        judge.places.at(delegation.scope.path, delegation.line, target),
        method,
        (
            evidence,
            Related(judge.places.klass(klass), f"{klass.name} defines no {name}"),
            *dict.fromkeys(e for _, e in lacking[1:3] if e != evidence),
        ),
        (f"not implemented by {', '.join(dict.fromkeys(k.name for k, _ in lacking))}",),
        f"Ask first: getattr({attr.split(' or ')[0]}, {name!r}, None).",
    )
