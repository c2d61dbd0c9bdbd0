"""What a wrapper's method touches of what the wrapper holds, through its own helpers too.

The linter and the guard read a method into a :class:`Reach` each in its own way; what follows from
it is decided here, for both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from .diagnostic import Place

__all__ = ["Definition", "Reach", "reach", "touched"]


class Reach(NamedTuple):
    """What one method does with the object that it runs on.

    ``reads`` are the attributes that it reads or calls, ``up`` those that it asks of ``super()``,
    ``stores`` the attributes that it stores, each with the attributes whose values it keeps there.
    """

    reads: frozenset[str]
    up: frozenset[str]
    stores: Mapping[str, frozenset[str]]


class Definition(NamedTuple):
    """What a name is on an instance: in which class's body it stands, and what it runs.

    ``below`` says that it stands below the guarded base. ``runs`` that it is a function or a
    property; ``reach`` reads it then, and gives None where its source is not there.
    """

    owner: object
    symbol: str
    place: Callable[[], Place]
    below: bool
    runs: bool
    reach: Callable[[], Reach | None]


def reach(
    reads: Iterable[str],
    up: Iterable[str],
    stores: Iterable[tuple[str, frozenset[str]]],
    binds: Iterable[tuple[str, frozenset[str]]],
) -> Reach:
    """A reach out of what a body does.

    The values of ``stores`` (attributes) and ``binds`` (local names) are what they are kept from:
    local names, and attributes with a dot before them. An argument that is stored stands for the
    attribute: after ``self.inner = inner`` the local ``inner`` is ``.inner``.
    """
    stored: dict[str, set[str]] = {}
    known: dict[str, set[str]] = {}
    for name, values in stores:
        stored.setdefault(name, set()).update(values)
        for local in values if len(values) == 1 else ():
            known.setdefault(local, set()).add(f".{name}")
    for name, values in binds:
        known.setdefault(name, set()).update(values)
    return Reach(
        frozenset(reads),
        frozenset(up),
        {name: _attributes(values, known) - {name} for name, values in stored.items()},
    )


def _attributes(values: Iterable[str], known: Mapping[str, Iterable[str]]) -> frozenset[str]:
    waiting, seen = list(values), set[str]()
    while waiting:
        value = waiting.pop()
        if value not in seen:
            seen.add(value)
            waiting += () if value.startswith(".") else known.get(value, ())
    return frozenset(value[1:] for value in seen if value.startswith("."))


def touched(
    start: Definition,
    children: Collection[str],
    kept: Mapping[str, frozenset[str]],
    look: Callable[[str, object], Definition | None],
) -> tuple[frozenset[str], bool]:
    """The ``children`` that a definition touches, and whether all that it runs could be read.

    ``kept`` are the attributes that keep the values of others; ``look(name, after)`` finds what a
    name is, behind a class where one is given.
    """
    found: set[str] = set()
    whole = True
    waiting, seen = [start], {start.symbol}
    while waiting:
        definition = waiting.pop()
        body = definition.reach()
        if body is None:
            whole = False
            continue
        inner = [look(name, definition.owner) for name in body.up]
        reads, read = list(body.reads), set[str]()
        while reads:
            name = reads.pop()
            if name in read:
                continue
            read.add(name)
            if name in children:
                found.add(name)
            else:
                reads += kept.get(name, ())
                inner.append(look(name, None))
        for other in inner:
            if other is not None and other.runs and other.symbol not in seen:
                seen.add(other.symbol)
                waiting.append(other)
    return frozenset(found), whole
