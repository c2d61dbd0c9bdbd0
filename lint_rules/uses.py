"""What code outside of a backend asks of it, and which backends can be meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lint_rules.conditions import negation
from lint_rules.facts import And, Call, Compare, Const, Expr, Name, Not, Or
from lint_rules.link import Klass
from lint_rules.types import Scope, Typed

if TYPE_CHECKING:
    from lint_rules.exposure import View

__all__ = ["Use", "UseKind"]

UseKind = Literal["call", "probe", "read"]


@dataclass(frozen=True, slots=True)
class Use:
    """A name that code outside the class asks of a backend.

    ``delegated``: the guard's ``delegate`` makes the call, less what the contract lets it drop.
    ``unpacked``: into how many targets the result is taken apart, 0 where it is not.
    """

    name: str
    kind: UseKind
    base: Expr
    typed: Typed
    scope: Scope
    line: int
    cond: int
    caught: bool
    call: Call | None = None
    delegated: bool = False
    unpacked: int = 0

    def admits(self, klass: Klass, view: View) -> bool:
        """Whether an instance of ``klass`` can reach this use, by the guards around it."""
        if not self.typed.holds(klass) or not view.in_role(klass, self.typed):
            return False
        beside = view.neighbourhood(self.scope.path)
        if beside and not klass.path.startswith(beside):
            return False
        built = view.project.walked.only_if.get(klass, frozenset())
        for item in self.scope.guards(self.cond):
            if built and negation(item) in built:
                return False
            positive = not isinstance(item, Not)
            literal = item if positive else item.value  # type: ignore[union-attr]
            if not self._passes(literal, positive, klass, view):
                return False
        return True

    def _same(self, expr: Expr) -> bool:
        if expr == self.base:
            return True
        scope = self.scope
        for a, b in ((expr, self.base), (self.base, expr)):
            if isinstance(a, Name) and scope.single(a.id) == b:
                return True
        return False

    def _passes(self, item: Expr, positive: bool, klass: Klass, view: View) -> bool:
        """Whether one literal of the path can hold for an instance of ``klass``."""
        if isinstance(item, Or):
            if positive:
                return any(self._passes(_bare(i), _is_bare(i), klass, view) for i in item.items)
            return all(self._passes(_bare(i), not _is_bare(i), klass, view) for i in item.items)
        if isinstance(item, And):
            if positive:
                return all(self._passes(_bare(i), _is_bare(i), klass, view) for i in item.items)
            return any(self._passes(_bare(i), not _is_bare(i), klass, view) for i in item.items)
        if isinstance(item, Call) and isinstance(item.func, Name) and len(item.args) == 2:
            if item.func.id == "isinstance" and self._same(item.args[0]):
                named = view.classes_of(item.args[1], self.scope.path)
                inside = any(klass.is_a(k) for k in named)
                return inside if positive else not inside
            if item.func.id == "hasattr" and self._same(item.args[0]):
                name = item.args[1]
                if isinstance(name, Const) and name.text != repr(self.name):
                    exposed = view.exposure(klass, name.text[1:-1]).kind != "absent"
                    return exposed if positive else not exposed
        asked = _asked(item) if positive else None
        if asked is not None and self._same(asked[0]):
            return view.exposure(klass, asked[1]).kind != "absent"
        truth = view.truth(item, klass, self.scope)
        return truth is None or truth == positive

    @property
    def place(self) -> tuple[str, int]:
        return self.scope.path, self.line


def _is_bare(item: Expr) -> bool:
    return not isinstance(item, Not)


def _bare(item: Expr) -> Expr:
    return item.value if isinstance(item, Not) else item


def _asked(item: Expr) -> tuple[Expr, str] | None:
    """``(x, "name")`` for ``getattr(x, "name", default) == constant``, the default excluded."""
    if not (isinstance(item, Compare) and item.op == "==" and isinstance(item.right, Const)):
        return None
    left = item.left
    if (
        isinstance(left, Call)
        and left.func == Name("getattr")
        and len(left.args) == 3
        and isinstance(left.args[1], Const)
        and left.args[2] != item.right
    ):
        return left.args[0], left.args[1].text[1:-1]
    return None
