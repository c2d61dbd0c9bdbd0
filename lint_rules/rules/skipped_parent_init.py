"""MLA201: an ``__init__`` or state hook that never reaches the parent's, whose work is used."""

from __future__ import annotations

from collections.abc import Iterator

from lint_rules.facts import CallEvent, Function, Name, Read
from lint_rules.flow import Flow, super_target
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member
from mla_guard.diagnostic import Diagnostic, Related

__all__ = ["check"]

_SHOWN = 6


def check(judge: Judge) -> Iterator[Diagnostic]:
    said: set[tuple[Klass, Klass]] = set()
    for klass in judge.classes:
        if not klass.complete or "__getattr__" in klass.members:
            continue
        yield from _skipped_init(judge, klass, said)
        yield from _skipped_state(judge, klass)


def _skipped_init(
    judge: Judge, klass: Klass, said: set[tuple[Klass, Klass]]
) -> Iterator[Diagnostic]:
    init = klass.own.get("__init__")
    if init is None or init.function is None:
        return
    flow = judge.flow(klass)
    reached = set(flow.constructors)
    for parent in klass.mro[1:]:
        skipped = parent.own.get("__init__")
        if parent in reached or skipped is None or skipped.function is None:
            continue
        if skipped.function.body != "code":
            continue
        created = _created(Flow(judge.project, parent), parent)
        missing = sorted(a for a in created if not _exists(judge, klass, flow, a))
        readers = _readers(judge, klass, flow, missing)
        if readers:
            yield _diagnose(judge, klass, init, skipped, missing, readers)
            said.add((klass, parent))
            return


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
        or judge.view._written_outside(attr)
    )


def _readers(judge: Judge, klass: Klass, flow: Flow, missing: list[str]) -> dict[str, list[Member]]:
    """For each missing attribute the methods that read it and that ``klass`` inherits and runs."""
    found: dict[str, list[Member]] = {}
    for name, member in klass.members.items():
        function = member.function
        if function is None or name == "__init__" or member.owner is klass:
            continue
        for attr in _reads(function) & set(missing):
            if _runs_from_outside(judge, klass, member):
                found.setdefault(attr, []).append(member)
    for attr, method in _through_super(klass, set(missing)):
        if method not in found.setdefault(attr, []):
            found[attr].append(method)
    return {attr: members for attr, members in found.items() if members}


def _reads(function: Function) -> set[str]:
    receiver = Name(function.params[0].name) if function.params else None
    stored = {
        e.name for e in function.events if type(e).__name__ == "Write" and e.target == receiver  # type: ignore[union-attr]
    }
    return {
        e.name
        for e in function.events
        if isinstance(e, Read) and e.value == receiver and not e.probe and not e.caught
    } - stored


def _runs_from_outside(judge: Judge, klass: Klass, member: Member) -> bool:
    """Whether an inherited method is public, or called by a method that the class runs."""
    if not member.name.startswith("_"):
        return True
    return any(
        other.function is not None and other is not member and _calls(other.function, member.name)
        for other in klass.members.values()
    )


def _calls(function: Function, name: str) -> bool:
    receiver = Name(function.params[0].name) if function.params else None
    return any(
        isinstance(e, CallEvent)
        and getattr(e.call.func, "name", None) == name
        and getattr(e.call.func, "value", None) == receiver
        for e in function.events
    ) or any(isinstance(e, Read) and e.name == name and e.value == receiver for e in function.events)


def _through_super(klass: Klass, missing: set[str]) -> Iterator[tuple[str, Member]]:
    """Parents' methods that the class's own methods run through ``super()``."""
    for member in klass.own.values():
        function = member.function
        if function is None or member.name == "__init__":
            continue
        receiver = function.params[0].name if function.params else ""
        for event in function.events:
            if isinstance(event, CallEvent):
                target = super_target(event.call, klass, klass, receiver)
                if target is not None and target.function is not None and target.name != "__init__":
                    for attr in sorted(_reads(target.function) & missing):
                        yield attr, target


def _diagnose(
    judge: Judge,
    klass: Klass,
    init: Member,
    skipped: Member,
    missing: list[str],
    readers: dict[str, list[Member]],
) -> Diagnostic:
    attrs = sorted(readers)
    shown = ", ".join(attrs[:_SHOWN]) + (
        f" and {len(attrs) - _SHOWN} more" if len(attrs) > _SHOWN else ""
    )
    first = readers[attrs[0]][0]
    methods = {m for members in readers.values() for m in members}
    reached = [
        u for m in methods for u in judge.view.uses.get(m.name, ()) if u.admits(klass, judge.view)
    ]
    built = judge.built(klass)
    severity = "error" if built or reached else "warning"
    related = [
        Related(judge.places.member(skipped), f"{skipped.symbol} is skipped"),
        Related(judge.places.member(first), f"{first.symbol} reads {attrs[0]}"),
        *built[:1],
    ]
    latent = "" if severity == "error" else "Latent: nothing in this tree builds the class. "
    return Diagnostic(
        "MLA201",
        severity,
        f"{klass.name}.{init.name} never runs {skipped.symbol}, which creates {shown}; "
        f"{first.symbol} reads {attrs[0]}: AttributeError",
        judge.places.member(init),
        init.symbol,
        tuple(related),
        tuple(
            f"{attr} is read by {', '.join(dict.fromkeys(m.symbol for m in readers[attr]))}"
            for attr in attrs
        ),
        f"{latent}Call super().{init.name}(...), or create what the inherited methods read.",
    )


def _skipped_state(judge: Judge, klass: Klass) -> Iterator[Diagnostic]:
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
            attr: [m for m in members if m.name != name]
            for attr, members in _readers(judge, klass, flow, missing).items()
        }
        readers = {attr: members for attr, members in readers.items() if members}
        if readers:
            yield _diagnose(judge, klass, member, skipped, missing, readers)


def _only_created_by(klass: Klass, skipped: Member) -> set[str]:
    """Attributes that one method of a parent creates and nothing else in the MRO does."""
    return {
        attr
        for attr, writes in klass.stored.items()
        if writes and all(function is skipped.function for _, function, _ in writes)
    }
