"""MLA201: an ``__init__`` or state hook that never reaches the parent's, whose work is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lint_rules.conditions import satisfiable
from lint_rules.dispatch import super_target
from lint_rules.facts import Attr, CallEvent, Function, Name, Write
from lint_rules.flow import Flow, Reading
from lint_rules.gaps import is_guarded
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member
from lint_rules.uses import Use
from mla_guard.diagnostic import Diagnostic, Related, Severity

__all__ = ["Breach", "breaches", "check"]

_SHOWN = 6
_USERS = 2
_RARE = 10
"""So many classes for each that lacks what a constructor creates make that an oversight."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A finding about the method ``member``, which never runs ``skipped``."""

    diagnostic: Diagnostic
    member: Member
    skipped: Member


def check(judge: Judge) -> Iterator[Diagnostic]:
    return (breach.diagnostic for breach in breaches(judge))


def breaches(judge: Judge) -> Iterator[Breach]:
    """Every finding, with what it is about."""
    return judge.each(judge.classes, _breaches)


def _breaches(judge: Judge, klass: Klass) -> Iterator[Breach]:
    if klass.complete and "__getattr__" not in klass.members:
        yield from _skipped_init(judge, klass)
        if not judge.view.in_steps(klass):
            yield from _skipped_state(judge, klass)


def _skipped_init(judge: Judge, klass: Klass) -> Iterator[Breach]:
    init = klass.own.get("__init__")
    if init is None or init.function is None:
        return
    if _calls_some_init(klass, init.function):
        return
    flow = judge.flow(klass)
    reached = set(flow.constructors)
    latent: Breach | None = None
    for parent in klass.mro[1:]:
        skipped = parent.own.get("__init__")
        if parent in reached or skipped is None or skipped.function is None:
            continue
        if skipped.function.body != "code":
            continue
        created = _created(judge.flow(parent), parent)
        missing = sorted(a for a in created if not _exists(judge, klass, flow, a))
        readers = _readers(judge, klass, flow, missing)
        callers = {a: uses for a in missing if (uses := _callers(judge, klass, a))}
        if readers or callers:
            said = _diagnose(judge, klass, init, skipped, readers, callers)
            yield Breach(said, init, skipped)
            return
        helped = _helped(judge, klass, flow, skipped, missing)
        if helped and latent is None:
            latent = Breach(_unhelped(judge, klass, init, skipped, helped), init, skipped)
    if latent is not None:
        yield latent


def _calls_some_init(klass: Klass, function: Function) -> bool:
    """Whether it runs an ``__init__`` of which nobody can tell whose it is."""
    receiver = function.params[0].name if function.params else ""
    return any(
        isinstance(e, CallEvent)
        and isinstance(e.call.func, Attr)
        and e.call.func.name == "__init__"
        and super_target(e.call, klass, klass, receiver) is None
        for e in function.events
    )


def _callers(judge: Judge, klass: Klass, attr: str) -> list[Use]:
    """Code outside that reads the attribute off such a backend, unguarded.

    A class without a base class answers to whoever holds a backend of its family.
    """
    return [
        use
        for use in judge.view.outer_uses(attr)
        if use.kind == "read"
        and not is_guarded(use)
        and (klass.root is None or use.admits(klass, judge.view))
    ]


def _helped(
    judge: Judge, klass: Klass, flow: Flow, skipped: Member, missing: list[str]
) -> dict[str, Reading]:
    """What the skipped parent's helpers for the classes below read, and only ``klass`` lacks.

    Its siblings call them, so one that skips the constructor on purpose does not stand alone.
    """
    if not missing:
        return {}
    parent = skipped.owner
    helpers = [
        m
        for name, m in parent.own.items()
        if klass.members[name] == m and m.function is not None and _is_helper(judge, klass, name)
    ]
    found: dict[str, Reading] = {}
    for reading in flow.readings(helpers, missing):
        if reading.attr not in found and _happens(flow, reading):
            below = parent.descendants
            lacking = [k for k in below if not _exists(judge, k, judge.flow(k), reading.attr)]
            if len(lacking) * _RARE <= len(below):
                found[reading.attr] = reading
    return found


def _is_helper(judge: Judge, klass: Klass, name: str) -> bool:
    """Whether a protected method is there for siblings of ``klass`` to call on themselves."""
    if not name.startswith("_") or name.startswith("__"):
        return False
    users = {
        k
        for k in judge.classes
        if k is not klass and k.root is klass.root
        for method in k.facts.methods
        for event in method.calls
        if isinstance(event.call.func, Attr)
        and event.call.func.name == name
        and event.call.func.value == Name(method.params[0].name if method.params else "")
    }
    return len(users) >= _USERS


def _unhelped(
    judge: Judge, klass: Klass, init: Member, skipped: Member, helped: Mapping[str, Reading]
) -> Diagnostic:
    first = next(iter(helped.values()))
    others = len(skipped.owner.descendants) - 1
    said = f"{_symbol(first)} reads {first.attr}"
    return Diagnostic(
        "MLA201",
        "warning",
        f"{klass.name}.__init__ never runs {skipped.symbol}, which creates {', '.join(helped)}; "
        f"{said}: AttributeError",
        judge.places.member(init),
        init.symbol,
        (
            Related(judge.places.member(skipped), f"{skipped.symbol} is skipped"),
            judge.places.related(first.owner.path, first.line, first.attr, said),
        ),
        tuple(
            f"{attr} is read by {_symbol(r)}, which siblings call on themselves"
            for attr, r in helped.items()
        ),
        f"Latent: {klass.name} does not call it today. It is almost alone among {others} classes "
        "with that: call super().__init__(...).",
    )


def _created(flow: Flow, parent: Klass) -> set[str]:
    """What the constructor of ``parent`` itself creates, its helpers' work included."""
    return {
        attr
        for attr, creations in flow.creations.items()
        if any(c.owner is parent for c in creations)
    }


def _exists(judge: Judge, klass: Klass, flow: Flow, attr: str) -> bool:
    return (
        attr in flow.creations
        or attr in klass.members
        or attr in flow.stored_later_reachable
        or judge.view.written_outside(attr)
    )


def _readers(
    judge: Judge, klass: Klass, flow: Flow, missing: list[str]
) -> dict[str, list[Reading]]:
    """For each missing attribute where an inherited method reads it, as an instance runs it."""
    found: dict[str, list[Reading]] = {}
    entries = judge.hooks(klass) if klass.root in judge.view.roots else judge.public(klass)
    for reading in flow.readings(entries, missing):
        if _happens(flow, reading):
            found.setdefault(reading.attr, []).append(reading)
    return found


def _happens(flow: Flow, reading: Reading) -> bool:
    return not _stores_first(reading) and satisfiable(flow.premises(map(flow.normal, reading.path)))


def _stores_first(reading: Reading) -> bool:
    """Whether the reading function stores the attribute itself, earlier on."""
    receiver = Name(reading.function.params[0].name) if reading.function.params else None
    return any(
        isinstance(e, Write) and e.name == reading.attr and e.target == receiver
        for e in reading.function.events
    )


def _diagnose(
    judge: Judge,
    klass: Klass,
    init: Member,
    skipped: Member,
    readers: dict[str, list[Reading]],
    callers: Mapping[str, list[Use]],
) -> Diagnostic:
    who = {
        attr: list(
            dict.fromkeys(
                [_symbol(r) for r in readers.get(attr, ())]
                + [u.scope.symbol for u in callers.get(attr, ())]
            )
        )
        for attr in sorted({*readers, *callers})
    }
    attrs = sorted(who, key=lambda a: (a not in readers, a))
    shown = ", ".join(attrs[:_SHOWN]) + (
        f" and {len(attrs) - _SHOWN} more" if len(attrs) > _SHOWN else ""
    )
    reader, attr = who[attrs[0]][0], attrs[0]
    if attr in readers:
        first = readers[attr][0]
        place = judge.places.related(first.owner.path, first.line, attr, f"{reader} reads {attr}")
    else:
        use = callers[attr][0]
        place = judge.places.related(use.scope.path, use.line, attr, f"{reader} reads {attr}")
    built = [place for k in (klass, *klass.descendants) for place in judge.built(k)]
    severity: Severity = "error" if built else "warning"
    latent = "" if built else f"Latent: no construction of {klass.name} was found. "
    reasons = [f"{attr} is read by {', '.join(names)}" for attr, names in who.items()]
    if attr in readers and len(readers[attr][0].chain) > 1:
        reasons.append("through " + " -> ".join(m.symbol for m in readers[attr][0].chain))
    return Diagnostic(
        "MLA201",
        severity,
        f"{klass.name}.{init.name} never runs {skipped.symbol}, which creates {shown}; "
        f"{reader} reads {attr}: AttributeError",
        judge.places.member(init),
        init.symbol,
        (
            Related(judge.places.member(skipped), f"{skipped.symbol} is skipped"),
            place,
            *built[:1],
        ),
        tuple(reasons),
        f"{latent}Call super().{init.name}(...), or create what the inherited methods read.",
    )


def _symbol(reading: Reading) -> str:
    return f"{reading.owner.name}.{reading.function.name}"


def _skipped_state(judge: Judge, klass: Klass) -> Iterator[Breach]:
    """A hook that creates state, overridden without ``super()``, while that state is still read."""
    flow = judge.flow(klass)
    for name, member in klass.own.items():
        function = member.function
        if function is None or name.startswith("_"):
            continue
        skipped = klass.after(klass, name)
        if skipped is None or skipped.function is None or skipped.function.body != "code":
            continue
        receiver = function.params[0].name if function.params else ""
        if any(
            isinstance(e, CallEvent)
            and (t := super_target(e.call, klass, klass, receiver)) is not None
            and t.name == name
            for e in function.events
        ):
            continue
        created = _only_created_by(klass, skipped)
        missing = sorted(a for a in created if not _exists(judge, klass, flow, a))
        readers = {
            attr: kept
            for attr, readings in _readers(judge, klass, flow, missing).items()
            if (kept := [r for r in readings if r.function.name != name])
        }
        if readers:
            said = _diagnose(judge, klass, member, skipped, readers, {})
            yield Breach(said, member, skipped)


def _only_created_by(klass: Klass, skipped: Member) -> set[str]:
    """Attributes that one method of a parent creates and nothing else in the MRO does."""
    return {
        attr
        for attr, writes in klass.stored.items()
        if writes and all(function is skipped.function for _, function, _ in writes)
    }
