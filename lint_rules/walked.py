"""What one walk over all functions of a project tells by names alone, whoever asks.

Where classes are named (built, handed out, assigned), what is asked of anything, and what is stored
on other objects than the own instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
    Read,
    Return,
    Write,
    dotted,
    last_name,
)
from lint_rules.link import Klass, Project, kind_of

__all__ = ["Site", "Walked", "guards"]


class Site(NamedTuple):
    """A function where it is defined; ``klass`` is None for one of a module."""

    path: str
    klass: Klass | None
    function: Function

    @property
    def receiver(self) -> str:
        """The name of ``self`` (or ``cls``), empty for a plain function or static method."""
        function = self.function
        if self.klass is None or not function.params or kind_of(function) == "static":
            return ""
        return function.params[0].name

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


@dataclass(frozen=True, slots=True)
class _Found:
    """``naming`` are the events whose callee, the owner of it, or value has a class's name."""

    naming: list[tuple[Site, CallEvent | Bind | Return]] = field(default_factory=list)
    asked: dict[str, tuple[Site, int]] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)


class Walked:
    """The functions of a project, walked over once."""

    def __init__(self, project: Project) -> None:
        self._project = project

    @cached_property
    def _found(self) -> _Found:
        names = self._project.class_names
        found = _Found()
        naming, asked, stored = found.naming, found.asked, found.stored
        for site in self._sites():
            receiver = Name(site.receiver)
            for event in site.function.events:
                # by exact type, and in this order: most of the time goes here
                if type(event) is Read:
                    if event.name not in asked:
                        asked[event.name] = (site, event.line)
                    continue
                if type(event) is Write:
                    if event.name not in stored and event.target != receiver:
                        stored.add(event.name)
                    continue
                if type(event) is CallEvent:
                    named = event.call.func
                    last = last_name(named)
                    if last not in asked:
                        asked[last] = (site, event.line)
                    if last in names or (type(named) is Attr and last_name(named.value) in names):
                        naming.append((site, event))
                elif last_name(event.value) in names:  # type: ignore[union-attr, arg-type]
                    naming.append((site, event))  # type: ignore[arg-type]
        return found

    @property
    def asked(self) -> Mapping[str, tuple[Site, int]]:
        """Every name that code asks of something, and where first."""
        return self._found.asked

    def stores_elsewhere(self, name: str) -> bool:
        """Whether code stores an attribute of that name on another object than its own."""
        return name in self._found.stored

    def _sites(self) -> Iterator[Site]:
        for path, facts in self._project.files.items():
            for function in facts.functions:
                yield Site(path, None, function)
        for klass in self._project.classes:
            for method in klass.facts.methods:
                yield Site(klass.path, klass, method)

    def _meant(self, site: Site, value: Expr) -> list[Klass]:
        """The classes that ``value`` is."""
        if last_name(value) not in self._project.class_names:
            return []
        name = dotted(value)
        return self._project.resolve(site.path, name) if name else []

    @cached_property
    def calls(self) -> list[tuple[Site, CallEvent, list[Klass]]]:
        """The calls whose callee names classes, and those."""
        return [
            (site, event, classes)
            for site, event in self._found.naming
            if isinstance(event, CallEvent)
            if (classes := self._meant(site, event.call.func))
        ]

    @cached_property
    def made(self) -> dict[Klass, list[tuple[Site, int, str]]]:
        """Where the tree constructs a class or hands it out, and which of the two."""
        found: dict[Klass, list[tuple[Site, int, str]]] = {}
        for site, event in self._found.naming:
            if isinstance(event, CallEvent):
                value, what = event.call.func, "builds a"
            else:
                value, what = event.value, "hands out"
            for klass in self._meant(site, value):
                found.setdefault(klass, []).append((site, event.line, what))
        return found

    @cached_property
    def only_if(self) -> dict[Klass, frozenset[Expr]]:
        """What holds wherever the tree builds a class, of what is the same everywhere.

        Such are flags that a function without arguments gives: ``get_config().flag``.
        """
        found: dict[Klass, frozenset[Expr]] = {}
        for site, event in self._found.naming:
            if isinstance(event, CallEvent):
                for klass in self._built_by(site, event.call.func):
                    if site.klass is None or not site.klass.is_a(klass):
                        literals = found.get(klass)
                        if literals is None or literals:
                            here = _everywhere(site.function, event.cond)
                            found[klass] = here if literals is None else literals & here
        return {klass: literals for klass, literals in found.items() if literals}

    def _built_by(self, site: Site, func: Expr) -> list[Klass]:
        """The classes of which a call builds an instance: by name, or by a class method."""
        classes = self._meant(site, func)
        if classes or not isinstance(func, Attr):
            return classes
        return [
            klass
            for klass in self._meant(site, func.value)
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
