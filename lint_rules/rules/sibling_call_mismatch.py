"""MLA104: implementations with a common caller, of which some do not take what it passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from lint_rules.facts import Function
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member, is_abstract, shape
from lint_rules.siblings import Refusal, dispatchers, keywords_of
from mla_guard.diagnostic import Diagnostic, Related
from mla_guard.drift import VAR_KEYWORD, format_shape

__all__ = ["check"]

_SHOWN = 2
_AGREEING = 2
"""What one hook of several takes alone may be for its mode; what others agree on is not."""

_COMMON = 4
"""So many unrelated implementations that take a keyword make it one that layers pass to any."""


def check(judge: Judge) -> Iterator[Diagnostic]:
    for refusal in judge.refusals.values():
        yield _refused(judge, refusal)
    for root in judge.view.roots:
        for dispatcher, hooks in dispatchers(root):
            served = [
                klass
                for klass in judge.view.backends
                if klass.root is root
                and klass.method(dispatcher.name) == dispatcher
                and not judge.view.in_steps(klass)
            ]
            for klass in served:
                yield from _dispatched(judge, klass, dispatcher, hooks)
            splits = [split for hook in hooks for split in _splits(judge, served, root, hook)]
            if splits:
                yield _undeclared(judge, dispatcher, splits)


def _refused(judge: Judge, refusal: Refusal) -> Diagnostic:
    member, scope = refusal.member, refusal.scope
    assert member.function is not None
    names = _quoted(refusal.keywords)
    return Diagnostic(
        "MLA104",
        "error",
        f"{member.symbol} does not take {names}, which {scope.symbol} passes to whichever "
        f"{_family(member)} it holds: TypeError",
        judge.places.member(member),
        member.symbol,
        (
            judge.places.related(
                scope.path, refusal.line, member.name, f"{scope.symbol} calls it with {names}"
            ),
            *(
                Related(judge.places.member(m), f"{m.symbol} takes {names}")
                for m in refusal.taking[:_SHOWN]
            ),
        ),
        (
            f"{member.symbol} is {format_shape(shape(member.function))}",
            f"{names} taken by {', '.join(m.owner.name for m in refusal.taking)}",
        ),
        f"Take {names} with its default, and declare the hook on {_family(member)}.",
    )


def _dispatched(
    judge: Judge, klass: Klass, dispatcher: Member, hooks: tuple[str, ...]
) -> Iterator[Diagnostic]:
    """Hooks of one class that the base class calls with one set of keywords, and that differ."""
    assert dispatcher.function is not None
    own = {p.name for p in dispatcher.function.params}
    members = [m for h in hooks if (m := klass.method(h)) is not None]
    taking = {
        m.name: keywords_of(m.function) - own
        for m in members
        if m.function is not None and not is_abstract(m.function)
    }
    for member in members:
        function = member.function
        if member.owner is not klass or function is None or member.name not in taking:
            continue
        if _is_open(function):
            continue
        others = [m for m in members if m.name in taking and m is not member]
        counted = Counter(k for m in others for k in taking[m.name] - taking[member.name])
        missing = sorted(k for k, count in counted.items() if count >= _AGREEING)
        if missing:
            wider = [m for m in others if taking[m.name] & set(missing)]
            yield _narrower(judge, dispatcher, member, missing, wider)


def _narrower(
    judge: Judge, dispatcher: Member, member: Member, missing: list[str], wider: list[Member]
) -> Diagnostic:
    assert member.function is not None
    names = _quoted(missing)
    return Diagnostic(
        "MLA104",
        "warning",
        f"{member.symbol} does not take {names}, which {dispatcher.symbol} hands to it as it does "
        f"to {' and '.join(m.name for m in wider)}: TypeError",
        judge.places.member(member),
        member.symbol,
        (
            Related(
                judge.places.member(dispatcher),
                f"{dispatcher.symbol} hands the same keywords to all of them",
            ),
            *(Related(judge.places.member(m), f"{m.symbol} takes {names}") for m in wider[:_SHOWN]),
        ),
        (f"{member.symbol} is {format_shape(shape(member.function))}",),
        f"Latent: it fails as soon as a caller of {dispatcher.name} passes {missing[0]}= and the "
        f"batch goes to {member.name}. Take it, with its default.",
    )


@dataclass(frozen=True, slots=True)
class _Split:
    """Implementations of one hook that take ``keyword``, the topmost ones, and that refuse it."""

    keyword: str
    taking: list[Member]
    refusing: list[Member]


def _splits(judge: Judge, served: list[Klass], root: Klass, hook: str) -> Iterator[_Split]:
    """The keywords that the base class leaves to its ``**kwargs`` and only some backends take."""
    declared = root.method(hook)
    known = {p.name for p in declared.function.params} if declared and declared.function else set()
    members = [
        m
        for klass in served
        if judge.view.wrapper(klass) is None
        and (m := klass.own.get(hook)) is not None
        and m.function is not None
        and not is_abstract(m.function)
    ]
    taken = {m.owner: keywords_of(m.function) for m in members if m.function is not None}
    closed = [m for m in members if m.function and not _is_open(m.function)]
    for keyword in sorted({k for keywords in taken.values() for k in keywords} - known):
        taking = [m for m in members if keyword in taken[m.owner]]
        owners = {m.owner for m in taking}
        topmost = [m for m in taking if not owners.intersection(m.owner.mro[1:])]
        refusing = [
            m
            for m in closed
            if m.function is not None
            and all(p.name != keyword for p in m.function.params)
            and judge.is_built(m.owner)
        ]
        if len(topmost) >= _COMMON and refusing:
            yield _Split(keyword, topmost, refusing)


def _is_open(function: Function) -> bool:
    return any(p.kind == VAR_KEYWORD for p in function.params)


def _undeclared(judge: Judge, dispatcher: Member, splits: list[_Split]) -> Diagnostic:
    """What layers can pass to a method of the base class, and only some backends take."""
    first = max(splits, key=lambda split: len(split.taking))
    hook, refusing = first.taking[0].name, first.refusing
    more = f" and {len(refusing) - 1} more" if len(refusing) > 1 else ""
    refused: dict[str, list[str]] = {}
    for split in splits:
        refused.setdefault(", ".join(m.symbol for m in split.refusing), []).append(split.keyword)
    return Diagnostic(
        "MLA104",
        "warning",
        f"{dispatcher.symbol} hands its **kwargs to {hook}: '{first.keyword}', which "
        f"{len(first.taking)} backends take there, is refused by {refusing[0].owner.name}{more}: "
        "TypeError",
        judge.places.member(dispatcher),
        dispatcher.symbol,
        (
            *(
                Related(judge.places.member(m), f"{m.symbol} takes '{first.keyword}'")
                for m in first.taking[:_SHOWN]
            ),
            *(
                Related(judge.places.member(m), f"{m.symbol} does not take it")
                for m in refusing[:_SHOWN]
            ),
        ),
        tuple(f"{_quoted(keywords)} not taken by {who}" for who, keywords in refused.items()),
        f"Latent: it fails as soon as a layer passes {first.keyword}= while such a backend is "
        f"configured. Declare it on {dispatcher.owner.name}.{hook} and take it everywhere, or "
        "refuse the configuration.",
    )


def _family(member: Member) -> str:
    root = member.owner.root
    return root.name if root is not None else member.owner.name


def _quoted(names: tuple[str, ...] | list[str]) -> str:
    return " and ".join(map(repr, names))
