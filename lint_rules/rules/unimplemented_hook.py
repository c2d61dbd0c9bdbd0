"""MLA305: a hook that the base class only raises for, called on backends that leave it at that."""

from __future__ import annotations

from collections.abc import Iterator

from lint_rules.declared import is_optional
from lint_rules.gaps import is_guarded
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member, kind_of
from lint_rules.permissions import keeps, permissions
from lint_rules.uses import Use
from mla_guard.diagnostic import Diagnostic, Related

__all__ = ["check"]

_LINEAGES = 1
"""Implemented by fewer backends, a hook is theirs alone, and its callers are meant for them."""


def check(judge: Judge) -> Iterator[Diagnostic]:
    for root in judge.view.roots:
        calls = {name: uses for name in root.members if (uses := _calls(judge, root, name))}
        lacking = {name: _lacking(judge, root.members[name], calls[name]) for name in calls}
        for name, uses in calls.items():
            # who lacks several of them leaves out a whole capability, which is asked for as one
            alone = [
                k for k in lacking[name] if not any(k in lacking[n] for n in calls if n != name)
            ]
            implementers = [
                k
                for k in judge.view.backends
                if k.root is root and (m := k.own.get(name)) is not None and not _only_raises(m)
            ]
            flags = permissions(judge.view, root, implementers)
            alone = [k for k in alone if not any(keeps(judge.view, k, flag) for flag in flags)]
            if alone and len(_topmost(implementers)) >= _LINEAGES:
                yield _diagnose(judge, root.members[name], uses, alone, implementers)


def _only_raises(member: Member) -> bool:
    return member.function is not None and member.function.body == "raise"


def _calls(judge: Judge, root: Klass, name: str) -> list[Use]:
    """The calls of a hook for which ``root`` only raises, unguarded and from outside."""
    member = root.members[name]
    function = member.function
    if function is None or function.body != "raise" or name.startswith("_"):
        return []
    if kind_of(function) != "method" or is_optional(function):
        return []
    if any("abstract" in decorator for decorator in function.decorators):
        return []  # Python itself refuses to build a class without it
    return [
        u
        for u in judge.view.outer_uses(name)
        if u.call is not None and not is_guarded(u) and u.scope.klass not in judge.companions
    ]


def _lacking(judge: Judge, declared: Member, uses: list[Use]) -> list[Klass]:
    """The backends that the tree builds, that a call can mean, and that leave the hook raising."""
    return [
        k
        for k in judge.view.backends
        if (m := k.method(declared.name)) is not None
        and m.function is declared.function
        and "__getattr__" not in k.members
        and judge.is_built(k)
        and (judge.view.wrapper(k) is None)
        and not judge.view.in_steps(k)
        and any(u.admits(k, judge.view) for u in uses)
    ]


def _topmost(classes: list[Klass]) -> list[Klass]:
    having = set(classes)
    return [k for k in classes if not any(p in having for p in k.mro[1:])]


def _diagnose(
    judge: Judge, declared: Member, uses: list[Use], lacking: list[Klass], having: list[Klass]
) -> Diagnostic:
    name, use = declared.name, uses[0]
    names = list(dict.fromkeys(k.name for k in lacking))
    first = names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    leaves = f"leave{'s' * (len(names) == 1)}"
    return Diagnostic(
        "MLA305",
        "warning",
        f"{use.scope.symbol} calls {name} on whichever backend is configured, but {first} "
        f"{leaves} it to {declared.symbol}: NotImplementedError",
        judge.places.at(use.scope.path, use.line, name),
        use.scope.symbol,
        (
            Related(judge.places.member(declared), f"{declared.symbol} only raises"),
            *(
                Related(judge.places.member(k.own[name]), f"{k.name} implements it")
                for k in _topmost(having)[:2]
            ),
            *(place for k in lacking[:2] for place in judge.built(k)[:1]),
        ),
        (
            f"not implemented by {', '.join(names)}",
            f"implemented by {', '.join(dict.fromkeys(k.name for k in having))}",
        ),
        "Latent where a configuration check keeps such a backend from this call. Implement the "
        "hook, or ask before the call whether the backend has it.",
    )
