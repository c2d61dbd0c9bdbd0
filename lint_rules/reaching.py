"""Which names can come to hold a backend, by names alone: far more than do, and cheap to find.

An attribute that is no such name, or a call of one that is none, holds no backend wherever it
stands, so that nothing has to be asked of its class, its file and the rest of the project. What is
followed here is what :meth:`lint_rules.types.Scope.typed` looks at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lint_rules.facts import (
    And,
    Attr,
    Bind,
    Call,
    CallEvent,
    ClassFacts,
    Const,
    Expr,
    FileFacts,
    Function,
    IfElse,
    Import,
    Item,
    Name,
    Or,
    Read,
    Seq,
    last_name,
)

__all__ = ["Flows", "flows", "reached"]

_HANDED_ON = frozenset({"list", "tuple", "reversed", "copy", "cast"})
"""Functions that are taken to give what they are passed."""


def reached(files: Iterable[FileFacts], names: Iterable[str]) -> frozenset[str]:
    """All that ``names`` flow to, with them."""
    onwards: dict[str, list[str]] = {}
    for facts in files:
        for name, sources in facts.flows:
            for source in sources:
                onwards.setdefault(source, []).append(name)
    found = set(names)
    queue = list(found)
    while queue:
        for name in onwards.get(queue.pop(), ()):
            if name not in found:
                found.add(name)
                queue.append(name)
    return frozenset(found)


class Flows(NamedTuple):
    """What can flow where in one file.

    ``names`` pairs each name with those that it can take something from; ``touched`` holds, for
    each of the functions and then of the methods, the names on which it depends whether any of
    its expressions is of interest.
    """

    names: tuple[tuple[str, tuple[str, ...]], ...]
    touched: tuple[tuple[str, ...], ...]


def flows(
    imports: Iterable[Import],
    aliases: Iterable[tuple[str, Expr]],
    classes: Iterable[ClassFacts],
    functions: Iterable[Function],
) -> Flows:
    """Names are those of attributes, functions and classes; what locals pass on is followed."""
    found: dict[str, set[str]] = {}

    def add(name: str, sources: Iterable[str]) -> None:
        found.setdefault(name, set()).update(sources)

    for entry in imports:
        if entry.name:
            add(entry.local, [entry.name])
    for name, value in aliases:
        add(name, _last_names(value))
    for klass in classes:
        for attr in klass.attrs:
            add(attr.name, map(_last, attr.annotation))
    around = [_Locals(function) for function in functions]
    bodies = [*around, *(_Locals(m) for klass in classes for m in klass.methods)]
    touched: list[tuple[str, ...]] = []
    for body in bodies:
        of_body = set(body.sources(_bases(body.function), around))
        for name, annotation, values in _given(body.function):
            sources = {*map(_last, annotation), *body.sources(values, around)}
            add(name, sources)
            of_body |= sources
        touched.append(tuple(sorted(of_body)))
    names = ((name, tuple(sorted(sources - {name}))) for name, sources in sorted(found.items()))
    return Flows(tuple((n, sources) for n, sources in names if sources), tuple(touched))


def _given(function: Function) -> Iterator[tuple[str, tuple[str, ...], list[Expr]]]:
    """What a function gives to which name: itself what it returns, attributes what it stores."""
    yield function.name, function.returns, [event.value for event in function.returned]
    for write in function.writes:
        yield write.name, write.annotation, [write.value] if write.value is not None else []
    for target, value in function.appended:
        yield target.name, (), [value]


def _bases(function: Function) -> Iterator[Expr]:
    """The expressions of which a function asks something."""
    for event in function.events:
        if isinstance(event, Read):
            yield event.value
        elif isinstance(event, CallEvent):
            yield from _asked(event.call)
        elif isinstance(event, Bind):
            if isinstance(event.value, Attr):
                yield event.value.value
            elif isinstance(event.value, Call):
                yield from _asked(event.value)


def _asked(call: Call) -> Iterator[Expr]:
    if isinstance(call.func, Attr):
        yield call.func.value
    yield from call.args[:1]  # of getattr, hasattr, delegate and route


class _Locals:
    """A function whose locals are followed."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._annotations: dict[str, list[str]] = {}
        self._values: dict[str, list[Expr]] = {}
        for parameter in function.params:
            # a parameter without annotation holds what others of its name do
            self._annotations[parameter.name] = [*map(_last, parameter.annotation), parameter.name]
        for bind in function.binds:
            self._annotations.setdefault(bind.name, []).extend(map(_last, bind.annotation))
            self._values.setdefault(bind.name, []).append(bind.value)

    def sources(self, exprs: Iterable[Expr], around: Iterable[_Locals]) -> set[str]:
        """The names that decide on what ``exprs`` can hold."""
        found: set[str] = set()
        seen: set[tuple[int, str]] = set()
        queue: list[tuple[_Locals, Expr]] = [(self, expr) for expr in exprs]
        while queue:
            body, item = queue.pop()
            if isinstance(item, Name):
                for place in [body] if item.id in body._annotations else around:
                    if (id(place), item.id) not in seen:
                        seen.add((id(place), item.id))
                        found.update(place._annotations.get(item.id, ()))
                        for value in place._values.get(item.id, ()):
                            found.update(_last_names(value))  # a class under another name
                            queue.append((place, value))
            elif isinstance(item, Attr):
                found.add(item.name)
            elif isinstance(item, Call):
                func = item.func
                name = last_name(func)
                found.add(name)
                if name in _HANDED_ON:
                    queue += [(body, argument) for argument in item.args]
                    found.update(word for a in item.args for word in _declared(a))
                elif name == "getattr" and len(item.args) > 1 and isinstance(item.args[1], Const):
                    found.add(item.args[1].text[1:-1])
                if isinstance(func, Attr):
                    found.add(last_name(func.value))  # a class, of which this is a classmethod
                    queue.append((body, func.value))
                elif isinstance(func, Name):
                    queue.append((body, func))  # a class, kept or handed in
            elif isinstance(item, Item):
                queue.append((body, item.value))
            elif isinstance(item, (Seq, Or, And)):
                queue += [(body, part) for part in item.items]
            elif isinstance(item, IfElse):
                queue += [(body, item.then), (body, item.other)]
        found.discard("")
        return found


def _declared(expr: Expr) -> Iterator[str]:
    """The classes that the first argument of ``cast`` names."""
    if isinstance(expr, Const):
        yield _last(expr.text[1:-1])
    elif isinstance(expr, Item):
        yield last_name(expr.value)
        if expr.index is not None:
            yield last_name(expr.index)
    else:
        yield last_name(expr)


def _last_names(value: Expr) -> Iterator[str]:
    """What an alias can be, of several the last names."""
    if isinstance(value, (Name, Attr)):
        yield last_name(value)
    elif isinstance(value, IfElse):
        yield from _last_names(value.then)
        yield from _last_names(value.other)
    elif isinstance(value, (Or, And, Seq)):
        for item in value.items:
            yield from _last_names(item)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
