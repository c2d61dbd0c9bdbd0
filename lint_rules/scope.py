"""What the expressions of one function hold: by annotation, by construction, by what is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from lint_rules.conditions import atoms, formula
from lint_rules.facts import (
    And,
    Attr,
    Bind,
    Call,
    Const,
    Expr,
    Function,
    IfElse,
    Item,
    Name,
    Or,
    Parameter,
    Seq,
    dotted,
    last_name,
)
from lint_rules.link import Klass, kind_of
from lint_rules.noted import open_ended
from lint_rules.walked import Site, guards

if TYPE_CHECKING:
    from lint_rules.types import Types

__all__ = ["Scope", "Typed", "merged"]

_CASTS = {"cast", "typing.cast"}
_GIVING = frozenset({"getattr", "cast", "list", "tuple", "reversed", "copy"})
"""Functions of which what they are passed says what they give."""
_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Typed:
    """What an expression holds: instances of ``classes`` or below, or of ``exact`` themselves.

    ``many``: several of them. ``outer`` says that it is the backend that the engine configured,
    wrappers included, and not one taken out of a wrapper.
    """

    classes: frozenset[Klass] = frozenset()
    many: bool = False
    outer: bool = True
    exact: frozenset[Klass] = frozenset()

    def merged(self, other: Typed | None) -> Typed:
        if other is None:
            return self
        return Typed(
            self.classes | other.classes,
            self.many or other.many,
            self.outer and other.outer,
            self.exact | other.exact,
        )

    def single(self, *, outer: bool | None = None) -> Typed:
        """One of several."""
        return replace(self, many=False, outer=self.outer if outer is None else outer)

    @property
    def named(self) -> frozenset[Klass]:
        """Every class that the evidence names."""
        return self.classes | self.exact

    def holds(self, klass: Klass) -> bool:
        """Whether it can be an instance of ``klass`` itself."""
        return klass in self.exact or any(klass.is_a(k) for k in self.classes)

    @property
    def possible(self) -> list[Klass]:
        """Every class of which it can be an instance, in file and line order."""
        return list(_possible(self.classes, self.exact))


@lru_cache(maxsize=256)
def _possible(classes: frozenset[Klass], exact: frozenset[Klass]) -> tuple[Klass, ...]:
    found = set(exact)
    for klass in classes:
        found.add(klass)
        found.update(klass.descendants)
    return tuple(sorted(found, key=lambda k: (k.path, k.line)))


def merged(found: Iterable[Typed | None]) -> Typed | None:
    """All the evidence together, None where there is none."""
    result: Typed | None = None
    for item in found:
        if item is not None:
            result = item if result is None else item.merged(result)
    return result


@dataclass(eq=False)
class Scope:
    """A function read in its file and class."""

    _types: Types
    path: str
    klass: Klass | None
    function: Function

    @property
    def types(self) -> Types:
        """What the whole project tells about the backends that expressions hold."""
        open_ended()
        return self._types

    @property
    def site(self) -> Site:
        return Site(self.path, self.klass, self.function)

    @property
    def binds(self) -> dict[str, list[Bind]]:
        return self.function.bound

    @cached_property
    def params(self) -> dict[str, Parameter]:
        return {p.name: p for p in self.function.params}

    @cached_property
    def receiver(self) -> str:
        """The name of ``self`` (or ``cls``), empty for a plain function or static method."""
        return self.site.receiver

    @property
    def symbol(self) -> str:
        return self.site.symbol

    def single(self, name: str) -> Expr | None:
        """The value of a local that is assigned once and is no parameter."""
        binds = self.binds.get(name, ())
        if len(binds) == 1 and name not in self.params:
            return binds[0].value
        return None

    def guards(self, cond: int) -> tuple[Expr, ...]:
        """The conditions under which an event happens, as formulas all of which hold."""
        found = self._guards.get(cond)
        if found is None:
            found = self._guards[cond] = guards(self.function, cond)
        return found

    @cached_property
    def _guards(self) -> dict[int, tuple[Expr, ...]]:
        return {}

    def asked(self, cond: int) -> frozenset[Expr]:
        """The atoms of the conditions under which an event happens."""
        found = self._asked.get(cond)
        if found is None:
            parts = (atoms(formula(part)) for part in self.path_of(cond))
            found = self._asked[cond] = frozenset(atom for part in parts for atom in part)
        return found

    @cached_property
    def _asked(self) -> dict[int, frozenset[Expr]]:
        return {}

    def path_of(self, cond: int) -> list[Expr]:
        """The conditions under which an event happens, outermost first."""
        found: list[Expr] = []
        while cond != -1:
            cond, expr, _ = self.function.conditions[cond]
            found.append(expr)
        found.reverse()
        return found

    def typed(self, expr: Expr, depth: int = 0) -> Typed | None:
        """The backend that ``expr`` holds, or None."""
        if depth > _DEPTH:
            return None
        if isinstance(expr, Name):
            return self._typed_name(expr.id, depth)
        if isinstance(expr, Attr):
            return self._typed_attr(expr, depth) if expr.name in self.types.reached else None
        if isinstance(expr, Call):
            return self._typed_call(expr, depth) if self._may_give(expr.func) else None
        if isinstance(expr, Item):
            held = self.typed(expr.value, depth + 1)
            return held.single() if held is not None else None
        if isinstance(expr, Seq):
            held = merged(self.typed(item, depth + 1) for item in expr.items)
            return replace(held, many=True) if held is not None else None
        if isinstance(expr, IfElse):
            return merged((self.typed(expr.then, depth + 1), self.typed(expr.other, depth + 1)))
        if isinstance(expr, (Or, And)):
            return merged(self.typed(item, depth + 1) for item in expr.items)
        return None

    def _may_give(self, func: Expr) -> bool:
        """Whether a call of ``func`` can give a backend, by names alone."""
        reached = self.types.reached
        if isinstance(func, Name):
            return (
                func.id in reached
                or func.id in _GIVING
                or func.id in self.binds
                or func.id in self.params
                or func.id in self.types.around(self.path)
            )
        if isinstance(func, Attr):
            name = func.name
            return name in reached or name in _GIVING or last_name(func.value) in reached
        return False

    def _typed_name(self, name: str, depth: int) -> Typed | None:
        if name == self.receiver and self.klass is not None:
            return None
        known = self.types.names_in(self)
        if name in known:
            return known[name]
        known[name] = None  # cuts the recursion through `x = x.inner`
        known[name] = found = self._judge_name(name, depth)
        return found

    def _judge_name(self, name: str, depth: int) -> Typed | None:
        found: Typed | None = None
        parameter = self.params.get(name)
        if parameter is not None:
            found = self.types.annotated(self.path, parameter.annotation)
            if found is None and not parameter.annotation:
                found = self.types.by_name(name, self.path)
        for bind in self.binds.get(name, ()):
            item = self.types.annotated(self.path, bind.annotation) or self.typed(
                bind.value, depth + 1
            )
            if item is not None:
                found = item.merged(found)
        return found

    def _typed_attr(self, expr: Attr, depth: int) -> Typed | None:
        if expr.value == Name(self.receiver) and self.klass is not None:
            held = self.types.held(self.klass).get(expr.name)
            member = self.klass.method(expr.name)
            if held is None and member is not None and member.function is not None:
                if kind_of(member.function) == "property":
                    return self.types.scope(member.owner, member.function).returns(depth + 1)
            return held or (None if self._kept_otherwise(expr.name) else self._outer(expr.name))
        owner = self.typed(expr.value, depth + 1)
        if owner is not None and not owner.many:
            inner = self.types.held_below(owner.named, expr.name)
            return replace(inner, outer=False) if inner is not None else None
        if self.types.project.is_module(self.path, dotted(expr.value).partition(".")[0]):
            return None
        return self._outer(expr.name)

    def _kept_otherwise(self, name: str) -> bool:
        """Whether the class stores something in ``self.name`` of which nothing is known."""
        assert self.klass is not None
        return any(
            write.value is not None and write.value != Const("None")
            for _, _, write in self.klass.stored.get(name, ())
        )

    def _outer(self, name: str) -> Typed | None:
        return self.types.by_name(name, self.path)

    def _typed_call(self, expr: Call, depth: int) -> Typed | None:
        func = expr.func
        name = dotted(func)
        if name in {"getattr"} and len(expr.args) >= 2 and isinstance(expr.args[1], Const):
            attribute = expr.args[1].text[1:-1]
            return self._typed_attr(Attr(expr.args[0], attribute), depth)
        if name in _CASTS and len(expr.args) == 2:
            declared = expr.args[0]
            text = declared.text[1:-1] if isinstance(declared, Const) else dotted(declared)
            return self.types.annotated(self.path, (text,)) or self.typed(expr.args[1], depth + 1)
        if name in {"list", "tuple", "reversed", "copy", "copy.copy"} and expr.args:
            return self.typed(expr.args[0], depth + 1)
        if name:
            classes = [
                k for k in self.types.project.resolve(self.path, name) if k.root in self.types.roots
            ]
            if classes:
                return Typed(exact=frozenset(classes))
        if isinstance(func, Name):
            binds = [
                k
                for b in self.binds.get(func.id, ())
                if (n := dotted(b.value))
                for k in self.types.project.resolve(self.path, n)
                if k.root in self.types.roots
            ]
            if binds:
                return Typed(exact=frozenset(binds))
            return self.types.returned(self.path, func.id) or self.class_typed(func, depth + 1)
        if isinstance(func, Attr):
            if func.value == Name(self.receiver) and self.klass is not None:
                member = self.klass.method(func.name)
                if member is not None and member.function is not None:
                    scope = self.types.scope(member.owner, member.function)
                    return scope.returns(depth + 1)
            owner = self.typed(func.value, depth + 1)
            if owner is not None:
                given = merged(
                    self.types.scope(m.owner, m.function).returns(depth + 1)
                    for klass in owner.named
                    if (m := klass.method(func.name)) is not None and m.function is not None
                )
                if given is not None and self.types.is_opened(owner, func.name):
                    return replace(given, outer=False)
                return given
            constructor = self._classmethod(func)
            if constructor is not None:
                return constructor
            asked = dotted(func.value)
            named = self.types.project.resolve(self.path, asked) if asked else []
            if known := [m for k in named if (m := k.method(func.name)) is not None]:
                return merged(
                    self.types.scope(m.owner, m.function).returns(depth + 1)
                    for m in known
                    if m.function is not None
                )
            return self.types.method_returns(func.name, self.path)
        return None

    def class_typed(self, expr: Expr, depth: int = 0) -> Typed | None:
        """Instances of what, where ``expr`` is a class: ``type[X]`` by annotation, kept or handed.

        A name that a function around the class binds is looked for among the functions of the file.
        """
        if depth > _DEPTH:
            return None
        if isinstance(expr, Name):
            parameter = self.params.get(expr.id)
            if parameter is not None:
                return self.types.annotated_class(self.path, parameter.annotation)
            binds = self.binds.get(expr.id, ())
            if binds:
                return merged(self.class_typed(b.value, depth + 1) for b in binds)
            return merged(
                scope.class_typed(expr, depth + 1)
                for scope in self.types.around(self.path).get(expr.id, ())
                if scope is not self
            )
        if isinstance(expr, Attr) and expr.name not in self.types.reached:
            return None
        if isinstance(expr, Attr) and self.klass is not None and expr.value == Name(self.receiver):
            return merged(
                self.types.annotated_class(owner.path, write.annotation)
                or (
                    self.types.scope(owner, method).class_typed(write.value, depth + 1)
                    if write.value is not None
                    else None
                )
                for owner, method, write in self.klass.stored.get(expr.name, ())
            )
        if isinstance(expr, Call) and dotted(expr.func) in _CASTS and len(expr.args) == 2:
            declared = expr.args[0]
            if isinstance(declared, Item) and declared.index is not None:
                names = (dotted(declared.value), dotted(declared.index))
                return self.types.annotated_class(self.path, names)
            return self.class_typed(expr.args[1], depth + 1)
        if isinstance(expr, Call) and isinstance(expr.func, Attr):
            base = expr.func.value
            held = self.class_typed(base, depth + 1) or self.typed(base, depth + 1)
            return self.types.handed_out(held, expr.func.name) if held is not None else None
        if isinstance(expr, Call) and isinstance(expr.func, Name):
            found = self.types.project.function(self.path, expr.func.id)
            return self.types.annotated_class(found[0], found[1].returns) if found else None
        return None

    def _classmethod(self, func: Attr) -> Typed | None:
        """``SomeBackend.create(...)``: taken to build one of its own kind, unless it says more."""
        name = dotted(func.value)
        for klass in self.types.project.resolve(self.path, name) if name else ():
            member = klass.method(func.name)
            if klass.root in self.types.roots and member is not None and member.function:
                if kind_of(member.function) == "class":
                    said = self.types.annotated(member.owner.path, member.function.returns)
                    if said is not None and any(not klass.is_a(k) for k in said.classes):
                        return said
                    return Typed(exact=frozenset([klass]))
        return None

    def returns(self, depth: int = 0) -> Typed | None:
        """What a call of this function gives."""
        inferred = merged(self.typed(event.value, depth + 1) for event in self.function.returned)
        annotated = self.types.annotated(self.path, self.function.returns)
        if inferred is not None and annotated is not None:
            return replace(inferred.merged(annotated), outer=inferred.outer)
        return inferred or annotated
