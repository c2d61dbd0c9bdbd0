"""Which classes may be held where another is declared."""

from __future__ import annotations

from collections.abc import Iterator

from lint_rules.exposure import View
from lint_rules.link import Klass
from lint_rules.uses import Use

__all__ = ["asks_itself", "holders_of_steps", "strangers"]


def strangers(view: View, use: Use) -> Iterator[Klass]:
    """The classes that have the name of ``use`` and may be meant, though another is declared.

    Such is one that a hook of a family hands out, one that holds a backend for each step, and
    another part of the family of which the declaration names one. There is none where what is held
    is built in place.
    """
    types = view.types
    families = {p for k in use.typed.classes for p in k.mro if p in types.roots}
    for klass in _named(view, use):
        if (
            klass in types.strangers
            or any(parent in families for parent in klass.mro)
            or _holds_steps(view, klass)
        ):
            yield klass


def holders_of_steps(view: View, use: Use) -> Iterator[Klass]:
    """Those of ``strangers`` that hold a backend for each step and stand where one is declared."""
    return (klass for klass in _named(view, use) if _holds_steps(view, klass))


def _named(view: View, use: Use) -> Iterator[Klass]:
    for klass in view.types.project.classes if use.typed.classes else ():
        if use.name in klass.own or use.name in klass.stored:
            if not asks_itself(use, klass):
                yield klass


def _holds_steps(view: View, klass: Klass) -> bool:
    types = view.types
    return klass.root not in types.roots and any(t.many for t in types.held(klass).values())


def asks_itself(use: Use, klass: Klass) -> bool:
    """Whether what ``klass`` has under the name is the very method that asks for it."""
    return klass.members.get(use.name) is not None and (
        klass.members[use.name].function is use.scope.function
    )
