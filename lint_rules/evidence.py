"""What is known to be held under one name: it grows, and is read in between."""

from __future__ import annotations

from lint_rules.link import Klass
from lint_rules.scope import Typed

__all__ = ["Evidence"]


class Evidence:
    """Backends of one family that stand under one name."""

    def __init__(self) -> None:
        self._classes: set[Klass] = set()
        self._exact: set[Klass] = set()
        self._many = False
        self._outer = False
        self._typed: Typed | None = None

    def add(self, held: Typed, root: Klass) -> bool:
        """Take in what ``held`` has of the family of ``root``; whether some of it is new."""
        classes = {k for k in held.classes if k.root is root} - self._classes
        exact = {k for k in held.exact if k.root is root} - self._exact
        many, outer = self._many or held.many, self._outer or held.outer
        if not (classes or exact) and (many, outer) == (self._many, self._outer):
            return False
        self._classes |= classes
        self._exact |= exact
        self._many, self._outer = many, outer
        self._typed = None
        return True

    @property
    def typed(self) -> Typed:
        """All of it together; ``outer`` where some of it is."""
        if self._typed is None:
            self._typed = Typed(
                frozenset(self._classes), self._many, self._outer, frozenset(self._exact)
            )
        return self._typed
