"""MLA207: a method reads off ``self`` what nothing stores on some classes that inherit it."""

from __future__ import annotations

from collections.abc import Iterator

from lint_rules.facts import Name, Read
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member, kind_of
from lint_rules.rules.borrowed_method import reached
from mla_guard.diagnostic import Diagnostic, Related

__all__ = ["check"]

_SHOWN = 3


def check(judge: Judge) -> Iterator[Diagnostic]:
    lacking: dict[tuple[Klass, str], dict[Klass, tuple[Member, int]]] = {}
    for leaf, member, read in judge.each(judge.classes, _unstored):
        found = lacking.setdefault((member.owner, read.name), {})
        if leaf not in found and _reads(judge, leaf, member, read):
            found[leaf] = (member, read.line)
    for (_, attr), leaves in lacking.items():
        storing = {
            k: write.line
            for k in judge.classes
            for owner, _, write in k.stored.get(attr, ())
            if owner is k
        }
        if leaves and storing:  # a name that no class stores is what other code makes of it
            yield _diagnose(judge, attr, leaves, storing)


def _settled(leaf: Klass) -> bool:
    """Whether all that an instance has is known, and there can be an instance."""
    return (
        leaf.complete
        and "__getattr__" not in leaf.members
        and not any(
            "abstract" in decorator
            for member in leaf.members.values()
            if member.function is not None
            for decorator in member.function.decorators
        )
    )


def _unstored(judge: Judge, leaf: Klass) -> Iterator[tuple[Klass, Member, Read]]:
    """What methods of a family read off an instance of a leaf, and no class of it stores.

    Functions that are borrowed from an unrelated class are for another rule.
    """
    if leaf.root is None or leaf.children or not _settled(leaf):
        return
    known = {*leaf.members, *leaf.stored, *(a.name for k in leaf.mro for a in k.facts.attrs)}
    for member in leaf.members.values():
        function = member.function
        if function is None or member.attr is not None or member.owner.root is None:
            continue
        if kind_of(function) in {"static", "class"} or not function.params:
            continue
        receiver = Name(function.params[0].name)
        for event in function.events:
            if (
                isinstance(event, Read)
                and event.value == receiver
                and event.name not in known
                and not (event.probe or event.caught or event.name.startswith("__"))
                and not judge.view.written_outside(event.name)
            ):
                yield leaf, member, event


def _reads(judge: Judge, leaf: Klass, member: Member, read: Read) -> bool:
    flow = judge.flow(leaf)
    return any(
        reading.function is member.function and reached(judge, leaf, flow, reading)
        for reading in flow.readings([member], [read.name])
    )


def _diagnose(
    judge: Judge,
    attr: str,
    leaves: dict[Klass, tuple[Member, int]],
    storing: dict[Klass, int],
) -> Diagnostic:
    first, (member, line) = next(iter(leaves.items()))
    names = ", ".join(k.name for k in list(leaves)[:_SHOWN])
    more = f" and {len(leaves) - _SHOWN} more" if len(leaves) > _SHOWN else ""
    asked = judge.project.walked.asked.get(member.name)
    related = [
        Related(judge.places.klass(first), f"{first.name} inherits {member.symbol}")
        if first is not member.owner
        else Related(judge.places.klass(first), f"{first.name} stores no {attr}"),
        *(
            judge.places.related(k.path, stored, attr, f"{k.name} stores {attr}")
            for k, stored in list(storing.items())[:_SHOWN]
        ),
    ]
    if asked is not None:
        scope, at = asked
        said = f"{scope.symbol} asks for {member.name}"
        related.append(judge.places.related(scope.path, at, member.name, said))
    return Diagnostic(
        "MLA207",
        "error" if asked is not None else "warning",
        f"{member.symbol} reads {attr}, which nothing stores on {names}{more}: AttributeError",
        judge.places.at(member.owner.path, line, attr),
        member.symbol,
        tuple(related),
        (f"{attr} is stored by {', '.join(k.name for k in storing)} alone",),
        f"{'' if asked is not None else f'Latent: nothing asks for {member.name}. '}"
        f"Store {attr} where {member.owner.name} is constructed.",
    )
