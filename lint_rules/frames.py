"""A method as one call runs it: its expressions with arguments and locals put in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lint_rules.conditions import formula, substitute
from lint_rules.facts import Attr, Bind, Call, Const, Expr, Function, Name, Opaque, dotted
from lint_rules.link import Klass

__all__ = ["SELF", "Frame", "is_pure"]

SELF = Name("self")


@dataclass
class Frame:
    owner: Klass | None
    path: str
    function: Function
    env: Mapping[str, Expr]
    binds: Mapping[str, Sequence[Bind]]
    receiver: str

    def substituted(self, expr: Expr, depth: int = 0) -> Expr:
        def replace(item: Expr) -> Expr | None:
            if not isinstance(item, Name):
                return None
            if item.id == self.receiver:
                return SELF
            if item.id in self.env:
                return self.env[item.id]
            binds = self.binds.get(item.id)
            if not binds:
                return None
            if len(binds) == 1 and depth < 6 and is_pure(binds[0].value):
                return self.substituted(binds[0].value, depth + 1)
            return Name(f"{id(self.function)}:{item.id}")

        return substitute(expr, replace)

    def is_self(self, expr: Expr) -> bool:
        """Whether ``expr`` is the instance."""
        return isinstance(expr, Name) and self.substituted(expr) == SELF

    def condition(self, cond: int, *, fatal: bool = True) -> list[Expr]:
        """The condition of an event; without the *fatal* parts, those that only exclude a raise."""
        found: list[Expr] = []
        while cond != -1:
            cond, expr, raising = self.function.conditions[cond]
            if fatal or not raising:
                found.append(formula(self.substituted(expr)))
        found.reverse()
        return found


def is_pure(expr: Expr) -> bool:
    """Whether reading ``expr`` twice gives the same: no arguments, nothing unknown."""
    if isinstance(expr, Opaque):
        return False
    if isinstance(expr, Call):
        name = dotted(expr.func)
        if name in {"getattr", "hasattr", "isinstance", "bool", "len", "any", "all", "max", "min"}:
            return all(is_pure(a) for a in expr.args)
        return not (expr.args or expr.keywords or expr.star or expr.double_star) and is_pure(
            expr.func
        )
    if isinstance(expr, (Name, Const)):
        return True
    if isinstance(expr, Attr):
        return is_pure(expr.value)
    parts = [getattr(expr, f) for f in expr.__struct_fields__]
    flat: list[object] = []
    for part in parts:
        flat.extend(part if isinstance(part, tuple) else [part])
    return all(is_pure(p) for p in flat if p is not None and not isinstance(p, str))  # type: ignore[arg-type]
