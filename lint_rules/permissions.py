"""Flags that say whether a hook may be called, and callers that insist on one."""

from __future__ import annotations

from collections.abc import Collection

from lint_rules.exposure import View, constant_of
from lint_rules.facts import Attr, Const
from lint_rules.link import Klass, Member
from lint_rules.uses import Use

__all__ = ["insists", "keeps", "permissions"]


def permissions(view: View, root: Klass, implementers: Collection[Klass]) -> list[str]:
    """The flags that allow a hook: False on the base class, and otherwise wherever it is defined.

    A flag is an attribute, property or method without arguments that callers ask for. One
    implementation shows no such rule.
    """
    if len(implementers) < 2:
        return []
    return [
        name
        for name, member in root.members.items()
        if name in view.uses
        and _is_permission(member)
        and not any(keeps(view, k, name) for k in implementers)
    ]


def keeps(view: View, klass: Klass, name: str) -> bool:
    """Whether a class leaves a flag at the default of its base class."""
    exposure = view.exposure(klass, name)
    member = exposure.member
    return exposure.kind == "default" or (
        member is not None and not klass.stored.get(name) and view.same_as_root(klass, member)
    )


def _is_permission(member: Member) -> bool:
    function = member.function
    return constant_of(member) == Const("False") and (function is None or len(function.params) == 1)


def insists(use: Use) -> bool:
    """Whether a flag is asserted where it is read: who lacks it is told so."""
    return any(
        above == use.cond and fatal and test == Attr(use.base, use.name)
        for above, test, fatal in use.scope.function.conditions
    )
