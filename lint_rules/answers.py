"""How the classes of a family answer: to a name, with a constant, to what one file asks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from lint_rules.asked import Asked
from lint_rules.conditions import formula, substitute
from lint_rules.facts import And, Attr, Call, Const, Expr, Name, Not, Or, dotted
from lint_rules.link import Klass, Member, Project, kind_of
from lint_rules.types import Scope

__all__ = ["Answers", "Exposure", "asks", "constant_of"]

_QUESTIONS = ("isinstance", "hasattr", "getattr")


@dataclass(frozen=True, slots=True)
class Exposure:
    """How an instance of a class answers to a name.

    ``own``: the class or a parent below the root defines it. ``dynamic``: its ``__getattr__`` does.
    ``default``: only the root's definition is found. ``absent``: nothing is.
    """

    kind: Literal["own", "dynamic", "default", "absent"]
    member: Member | None = None
    shadowed: bool = False


class Answers(Asked):
    """The families, with how an instance of each class answers."""

    def __init__(self, project: Project, roots: list[Klass]) -> None:
        super().__init__(project, roots)
        self._exposures: dict[tuple[Klass, str], Exposure] = {}
        self._addressed: dict[tuple[Klass, str], bool] = {}

    def exposure(self, klass: Klass, name: str) -> Exposure:
        """How instances of ``klass`` answer to ``name``."""
        key = (klass, name)
        found = self._exposures.get(key)
        if found is None:
            found = self._exposures[key] = self._exposure(klass, name)
        return found

    def _exposure(self, klass: Klass, name: str) -> Exposure:
        member = klass.members.get(name)
        above = set(klass.root.mro) if klass.root is not None else set()
        if any(owner not in above for owner, _, _ in klass.stored.get(name, ())):
            return Exposure("own", member)
        if member is not None and member.owner not in above:
            return Exposure("own", member)
        getter = klass.members.get("__getattr__")
        dynamic = getter is not None and getter.owner not in above
        if member is not None or klass.stored.get(name):
            return Exposure("default", member, dynamic)
        if dynamic or not klass.complete:
            return Exposure("dynamic")
        return Exposure("absent")

    def constant(self, klass: Klass, name: str) -> bool | None:
        """The truth of a class flag that is a constant of the class and never stored."""
        member = klass.members.get(name)
        if member is None:
            return None
        if member.attr is not None and not klass.stored.get(name):
            value = member.attr.value
            if isinstance(value, Const) and not self.written_outside(name):
                return formula(value) == Const("True")
        is_property = member.function is not None and kind_of(member.function) == "property"
        return _constant_return(member) if is_property else None

    def returned_constant(self, klass: Klass, name: str) -> bool | None:
        """The truth of what a method returns where that is one constant."""
        member = klass.method(name)
        return _constant_return(member) if member is not None else None

    def truth(self, expr: Expr, klass: Klass, scope: Scope, depth: int = 0) -> bool | None:
        """What a flag is where the configured backend is a ``klass``, None where that is open.

        Flags are read off the backend, or kept from it in a local or an attribute of the caller.
        """
        if depth > 4:
            return None
        if isinstance(expr, Const):
            return formula(expr) == Const("True")
        if isinstance(expr, Not):
            inner = self.truth(expr.value, klass, scope, depth + 1)
            return None if inner is None else not inner
        if isinstance(expr, (And, Or)):
            known = [self.truth(i, klass, scope, depth + 1) for i in expr.items]
            decisive = isinstance(expr, Or)
            if decisive in known:
                return decisive
            return None if None in known else not decisive
        if isinstance(expr, Attr):
            if self._configured(expr.value, klass, scope):
                return self.constant(klass, expr.name)
            if expr.value == Name(scope.receiver) and scope.klass is not None:
                kept = [
                    None if w.value is None
                    else self.truth(w.value, klass, self.types.scope(owner, method), depth + 1)
                    for owner, method, w in scope.klass.stored.get(expr.name, ())
                ]  # fmt: skip
                return kept[0] if kept and len(set(kept)) == 1 else None
        if isinstance(expr, Name):
            kept = [
                self.truth(b.value, klass, scope, depth + 1) for b in scope.binds.get(expr.id, ())
            ]
            if expr.id not in scope.params and kept and len(set(kept)) == 1:
                return kept[0]
        if isinstance(expr, Call) and isinstance(expr.func, Attr) and not expr.args:
            if self._configured(expr.func.value, klass, scope):
                return self.returned_constant(klass, expr.func.name)
        if isinstance(expr, Call) and expr.func == Name("getattr") and len(expr.args) == 3:
            base, name, default = expr.args
            if isinstance(name, Const) and self._configured(base, klass, scope):
                if self.exposure(klass, name.text[1:-1]).kind == "absent":
                    return self.truth(default, klass, scope, depth + 1)
                return self.constant(klass, name.text[1:-1])
        return None

    def _configured(self, base: Expr, klass: Klass, scope: Scope) -> bool:
        typed = self._single(scope, base)
        return typed is not None and typed.outer and typed.holds(klass)

    def written_outside(self, name: str) -> bool:
        """Whether code outside of the class stores an attribute of that name on some object."""
        return self.project.walked.stores_elsewhere(name)

    def same_as_root(self, klass: Klass, member: Member) -> bool:
        """Whether a definition only repeats the root's constant."""
        declared = klass.root.members.get(member.name) if klass.root is not None else None
        if declared is None:
            return False
        mine, theirs = constant_of(member), constant_of(declared)
        return mine is not None and mine == theirs

    def addressed(self, klass: Klass, path: str) -> bool:
        """Whether ``klass`` has all that the file ``path`` asks of the configured backend.

        A model that brings a backend of its own asks for much that only this backend has.
        """
        found = self._addressed.get((klass, path))
        if found is None:
            found = self._addressed[klass, path] = all(
                self.exposure(klass, name).kind != "absent" for name in self._demands.get(path, ())
            )
        return found

    @cached_property
    def _demands(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, uses in self.uses.items():
            for use in uses:
                kept = use.call is not None and isinstance(use.call.func, Name)
                if use.kind == "probe" or use.caught or kept or not use.typed.outer:
                    continue
                path = use.scope.path_of(use.cond)
                if not _asks_backend(use.scope, path) and not _chosen_by_name(path):
                    found.setdefault(use.scope.path, set()).add(name)
        return found


def asks(path: list[Expr]) -> bool:
    """Whether a condition on the way asks what an object is or has."""
    return any(word in repr(part) for part in path for word in _QUESTIONS)


def _asks_backend(scope: Scope, path: list[Expr]) -> bool:
    """Whether a condition on the way asks what a backend is or has."""
    asked: list[Expr] = []

    def note(part: Expr) -> None:
        if isinstance(part, Call) and dotted(part.func) in _QUESTIONS and part.args:
            asked.append(part.args[0])

    for part in path:
        substitute(part, note)
    return any(scope.typed(subject) is not None for subject in asked)


def _chosen_by_name(path: list[Expr]) -> bool:
    """Whether a condition on the way compares with a text, such as the name of a backend."""
    return any(f"Const(text={quote}" in repr(part) for part in path for quote in ("\"'", "'\""))


def _constant_return(member: Member) -> bool | None:
    value = constant_of(member)
    return None if value is None else formula(value) == Const("True")


def constant_of(member: Member) -> Expr | None:
    """The constant that a class attribute is, or that a property or method returns."""
    if member.attr is not None:
        return member.attr.value if isinstance(member.attr.value, Const) else None
    assert member.function is not None
    if member.function.body == "code":
        return None
    values = [e.value for e in member.function.returned]
    if not values and member.function.body == "trivial":
        return Const("None")
    return values[0] if len(values) == 1 and isinstance(values[0], Const) else None
