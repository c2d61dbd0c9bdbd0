"""MLA104: implementations with a common caller, of which some do not take what it passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lint_rules.judge import Judge
from lint_rules.link import Klass, Member, is_abstract, shape
from lint_rules.siblings import Refusal, dispatchers, keywords_of
from mla_guard.diagnostic import Diagnostic, Related
from mla_guard.drift import VAR_KEYWORD, format_shape

__all__ = ["check"]

_SHOWN = 2
_AGREEING = 2
"""What one hook of several takes alone may be for its mode; what others agree on is not."""


def check(judge: Judge) -> Iterator[Diagnostic]:
    for refusal in judge.refusals.values():
        yield _refused(judge, refusal)
    for root in judge.view.roots:
        for dispatcher, hooks in dispatchers(root):
            for klass in judge.view.backends:
                method = klass.method(dispatcher.name)
                if klass.root is root and method == dispatcher and not judge.view.in_steps(klass):
                    yield from _dispatched(judge, klass, dispatcher, hooks)


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
        if any(p.kind == VAR_KEYWORD for p in function.params):
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


def _family(member: Member) -> str:
    root = member.owner.root
    return root.name if root is not None else member.owner.name


def _quoted(names: tuple[str, ...] | list[str]) -> str:
    return " and ".join(map(repr, names))
