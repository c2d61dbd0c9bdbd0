"""Implementations of one hook that a common caller treats alike, though no base declares it so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lint_rules.facts import Attr, CallEvent, Function, Name
from lint_rules.gaps import arguments
from lint_rules.link import Klass, Member, is_abstract, kind_of, shape
from lint_rules.types import Scope
from mla_guard.drift import KEYWORD_ONLY, POSITIONAL_OR_KEYWORD, VAR_KEYWORD, Call, binding_errors

__all__ = ["Refusal", "dispatchers", "keywords_of", "refusals"]

_IMPLEMENTERS = 3
_TAKING = 2
"""So many implementations, and so many that take a keyword, make a call one for all of them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """``member`` does not take ``keywords``, which a call passes that ``taking`` accept."""

    member: Member
    keywords: tuple[str, ...]
    taking: tuple[Member, ...]
    scope: Scope
    line: int
    call: Call


def keywords_of(function: Function) -> frozenset[str]:
    """The optional parameters that a call can pass by keyword."""
    return frozenset(
        p.name
        for p in function.params
        if not p.required and p.kind in (POSITIONAL_OR_KEYWORD, KEYWORD_ONLY)
    )


def refusals(classes: Sequence[Klass], scopes: Sequence[Scope]) -> Iterator[Refusal]:
    """Where a call by name fails on some implementations that no base class declares.

    ``classes`` belong to one family. The caller stands outside of it, at least two implementations
    take what it passes, and the others miss nothing but keywords that are optional in those.
    """
    hooks: dict[str, list[Member]] = {}
    for klass in classes:
        for name, member in klass.own.items():
            function = member.function
            if function is None or is_abstract(function) or kind_of(function) != "method":
                continue
            if not name.startswith("_") and klass.root and name not in klass.root.members:
                hooks.setdefault(name, []).append(member)
    hooks = {name: members for name, members in hooks.items() if len(members) >= _IMPLEMENTERS}
    said: set[tuple[str, Member]] = set()
    for scope in scopes if hooks else ():
        if hooks.keys().isdisjoint(scope.function.names):
            continue
        for event in scope.function.calls:
            if event.caught or not event.call.keywords:
                continue
            func = event.call.func
            if not isinstance(func, Attr) or func.value == Name(scope.receiver):
                continue
            for refusal in _refused(hooks.get(func.name, ()), scope, event):
                if (func.name, refusal.member) not in said:
                    said.add((func.name, refusal.member))
                    yield refusal


def _refused(members: Sequence[Member], scope: Scope, event: CallEvent) -> Iterator[Refusal]:
    call = arguments(event.call)
    taking = tuple(m for m in members if m.function and not binding_errors(shape(m.function), call))
    if len(taking) < _TAKING:
        return
    common = frozenset.intersection(*(keywords_of(m.function) for m in taking if m.function))
    for member in members:
        assert member.function is not None
        if member in taking:
            continue
        own = {p.name for p in member.function.params}
        refused = tuple(k for k in call.keywords if k not in own)
        rest = Call(
            call.positional,
            tuple(k for k in call.keywords if k not in refused),
            call.star,
            call.double_star,
        )
        if set(refused) <= common and not binding_errors(shape(member.function), rest):
            yield Refusal(member, refused, taking, scope, event.line, call)


def dispatchers(root: Klass) -> Iterator[tuple[Member, tuple[str, ...]]]:
    """Methods of ``root`` that hand one ``**kwargs`` of theirs to several hooks, and to which."""
    for member in root.own.values():
        function = member.function
        if function is None or not any(p.kind == VAR_KEYWORD for p in function.params):
            continue
        receiver = Name(function.params[0].name)
        hooks = dict.fromkeys(
            event.call.func.name
            for event in function.events
            if isinstance(event, CallEvent)
            and event.call.double_star
            and isinstance(event.call.func, Attr)
            and event.call.func.value == receiver
        )
        if len(hooks) > 1:
            yield member, tuple(hooks)
