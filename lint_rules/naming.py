"""Where the code of a project names a class: what it builds, hands out and assigns.

One walk over all functions answers every question about classes by name, for each view.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from lint_rules.conditions import conjunction, formula
from lint_rules.facts import (
    And,
    Attr,
    Bind,
    Call,
    CallEvent,
    Expr,
    Function,
    Name,
    Not,
    Return,
    dotted,
    last_name,
)
from lint_rules.link import Klass, Project, kind_of

__all__ = ["Naming", "Place", "guards"]


class Place(NamedTuple):
    """A function where it is defined; ``klass`` is None for one of a module."""

    path: str
    klass: Klass | None
    function: Function

    @property
    def symbol(self) -> str:
        name = self.function.name
        return f"{self.klass.qualname}.{name}" if self.klass is not None else name


def guards(function: Function, cond: int) -> tuple[Expr, ...]:
    """The conditions under which an event happens, as formulas all of which hold."""
    parts: list[Expr] = []
    while cond != -1:
        cond, expr, _ = function.conditions[cond]
        parts.append(expr)
    path = conjunction(map(formula, reversed(parts)))
    return path.items if isinstance(path, And) else (path,)


class Naming:
    """The calls, assignments and returns of a project that name classes."""

    def __init__(self, project: Project) -> None:
        self._project = project

    @cached_property
    def _events(self) -> list[tuple[Place, CallEvent | Bind | Return]]:
        """Those whose callee, the owner of it, or value has the name of a class."""
        names = self._project.class_names
        found: list[tuple[Place, CallEvent | Bind | Return]] = []
        for place in self._places():
            for event in place.function.events:
                kind = type(event)  # most of the time goes here
                if kind is CallEvent:
                    named: Expr = event.call.func  # type: ignore[union-attr]
                elif kind is Bind or kind is Return:
                    named = event.value  # type: ignore[union-attr, assignment]
                else:
                    continue
                shape = type(named)
                if shape is Attr:
                    owner = named.value  # type: ignore[union-attr]
                    if named.name in names or (  # type: ignore[union-attr]
                        kind is CallEvent and last_name(owner) in names
                    ):
                        found.append((place, event))  # type: ignore[arg-type]
                elif shape is Name and named.id in names:  # type: ignore[union-attr]
                    found.append((place, event))  # type: ignore[arg-type]
        return found

    def _places(self) -> Iterator[Place]:
        for path, facts in self._project.files.items():
            for function in facts.functions:
                yield Place(path, None, function)
        for klass in self._project.classes:
            for method in klass.facts.methods:
                yield Place(klass.path, klass, method)

    def _meant(self, place: Place, value: Expr) -> list[Klass]:
        """The classes that ``value`` is."""
        if last_name(value) not in self._project.class_names:
            return []
        name = dotted(value)
        return self._project.resolve(place.path, name) if name else []

    @cached_property
    def calls(self) -> list[tuple[Place, CallEvent, list[Klass]]]:
        """The calls whose callee names classes, and those."""
        return [
            (place, event, classes)
            for place, event in self._events
            if isinstance(event, CallEvent)
            if (classes := self._meant(place, event.call.func))
        ]

    @cached_property
    def made(self) -> dict[Klass, list[tuple[Place, int, str]]]:
        """Where the tree constructs a class or hands it out, and which of the two."""
        found: dict[Klass, list[tuple[Place, int, str]]] = {}
        for place, event in self._events:
            if isinstance(event, CallEvent):
                value, what = event.call.func, "builds a"
            else:
                value, what = event.value, "hands out"
            for klass in self._meant(place, value):
                found.setdefault(klass, []).append((place, event.line, what))
        return found

    @cached_property
    def only_if(self) -> dict[Klass, frozenset[Expr]]:
        """What holds wherever the tree builds a class, of what is the same everywhere.

        Such are flags that a function without arguments gives: ``get_config().flag``.
        """
        found: dict[Klass, frozenset[Expr]] = {}
        for place, event in self._events:
            if isinstance(event, CallEvent):
                for klass in self._built_by(place, event.call.func):
                    if place.klass is None or not place.klass.is_a(klass):
                        literals = found.get(klass)
                        if literals is None or literals:
                            here = _everywhere(place.function, event.cond)
                            found[klass] = here if literals is None else literals & here
        return {klass: literals for klass, literals in found.items() if literals}

    def _built_by(self, place: Place, func: Expr) -> list[Klass]:
        """The classes of which a call builds an instance: by name, or by a class method."""
        classes = self._meant(place, func)
        if classes or not isinstance(func, Attr):
            return classes
        return [
            klass
            for klass in self._meant(place, func.value)
            if (m := klass.method(func.name)) is not None
            and m.function is not None
            and kind_of(m.function) == "class"
        ]


def _everywhere(function: Function, cond: int) -> frozenset[Expr]:
    return frozenset(item for item in guards(function, cond) if _is_global(item))


def _is_global(literal: Expr) -> bool:
    base = literal.value if isinstance(literal, Not) else literal
    while isinstance(base, Attr):
        base = base.value
    return isinstance(base, Call) and isinstance(base.func, Name) and base == Call(base.func)
