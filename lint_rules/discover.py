"""Which files can matter: class headers first, widened by names until nothing is added.

What one file says stands in its row (see :mod:`lint_rules.rows`); what files are asked for depends
on names that only all of them together give.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lint_rules.rows import Row
from lint_rules.stand_ins import stand_ins

__all__ = ["Library", "Scan", "scan"]

_MOST_NAMESAKES = 4


class Library(Protocol):
    """The files, asked for names that the scan comes upon."""

    @property
    def rows(self) -> Mapping[str, Row]:
        """What each file says by itself, by path."""

    @property
    def texts(self) -> Mapping[str, bytes]:
        """The bytes of each file, by path."""

    def containing(self, names: Collection[str]) -> Mapping[str, Collection[str]]:
        """The files in which each of ``names`` stands as a word."""

    def needles(self, asked: Mapping[str, tuple[str, ...]]) -> Iterable[str]:
        """What holds or returns an instance of the classes asked for, file by file.

        That is: attributes, parameters and functions annotated with, or assigned from, one.
        """


@dataclass
class Scan:
    """What the scan found.

    ``family`` maps each name of a class that derives, by name, from a root to the files that
    define it; ``needles`` are names of attributes and functions that hold or return a backend.
    ``stand_ins`` are the pairs of classes that stand in for each other, ``declared`` the files that
    declare a class of each name, whatever it derives from.
    """

    family: dict[str, set[str]]
    needles: frozenset[str]
    defining: frozenset[str]
    using: frozenset[str]
    stand_ins: tuple[tuple[str, str], ...]
    declared: dict[str, set[str]]


def scan(
    library: Library,
    roots: Sequence[str],
    companions: Sequence[str] = (),
    pairs: Sequence[tuple[str, str]] = (),
) -> Scan:
    """Find the files that define or use a class below ``roots``.

    Of the hierarchies below ``companions`` only the definitions are looked for. ``pairs`` stand in
    for each other, like those that the sources say so of.
    """
    headers = _Headers(library.rows)
    eithers = [pair for row in library.rows.values() for pair in row.eithers]
    pairs = (*pairs, *stand_ins(eithers, library.texts, headers.declared, headers.above))
    tops = {root.rpartition(".")[2] for root in roots} | {name for pair in pairs for name in pair}
    family = _family(headers, tops)
    beside = _family(headers, {root.rpartition(".")[2] for root in companions})
    defining = frozenset(path for files in family.values() for path in files)
    standing = library.containing({*family, *beside})
    mentioning = {path for name in family for path in standing[name]}
    asked = {path: [] for path in sorted(mentioning - defining)}  # type: dict[str, list[str]]
    for name in sorted(family):
        for path in standing[name]:
            if path in asked:
                asked[path].append(name)
    found = library.needles({path: tuple(names) for path, names in asked.items()})
    telling = _telling(
        {name for name in found if len(name) > 4 and name not in family},
        library,
    )
    using = {path for files in telling.values() for path in files}
    family |= {name: files | family.get(name, set()) for name, files in beside.items()}
    defining |= {path for files in beside.values() for path in files}
    building = beside.keys() - {root.rpartition(".")[2] for root in companions}
    using |= {path for name in building for path in standing[name]}
    return Scan(
        family,
        frozenset(telling),
        defining,
        frozenset((using | mentioning) - defining),
        tuple(dict.fromkeys(pairs)),
        headers.declared,
    )


class _Headers:
    """Every class statement: what derives from a name, what a class derives from, and where."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = rows
        self.below: dict[str, list[tuple[str, str]]] = {}
        self.declared: dict[str, set[str]] = {}
        for path, row in rows.items():
            for name, bases in row.headers:
                self.declared.setdefault(name, set()).add(path)
                for base in bases:
                    self.below.setdefault(base, []).append((name, path))

    def above(self, name: str, path: str) -> set[str]:
        """The words among the bases of a class of that name in the file ``path``."""
        return {b for own, bases in self._rows[path].headers if own == name for b in bases}

    def renamed(self, names: Collection[str]) -> set[str]:
        """The other names that imports and assignments give to one of ``names``."""
        return {a for row in self._rows.values() for name, a in row.renamings if name in names}


def _family(headers: _Headers, roots: set[str]) -> dict[str, set[str]]:
    """The classes below ``roots`` and, of mixins, those above the classes found, by name."""
    below, declared = headers.below, headers.declared
    found: dict[str, set[str]] = {r: set(declared[r]) for r in roots if r in declared}
    queue = list(found)
    seen = set(queue)
    while queue:
        level, queue = queue, []
        for name in level:
            for child, path in below.get(name, ()):
                found.setdefault(child, set()).add(path)
                if child not in seen:
                    seen.add(child)
                    queue.append(child)
        if not queue:
            queue = sorted(headers.renamed(found) - seen - found.keys())
            seen.update(queue)
    rising = [(name, path) for name, files in found.items() for path in files]
    while rising:
        for base in headers.above(*rising.pop()):
            for path in declared.get(base, ()) if base not in found else ():
                if len(declared[base]) <= _MOST_NAMESAKES:
                    rising.append((base, path))
            if base in declared and len(declared[base]) <= _MOST_NAMESAKES:
                found.setdefault(base, set()).update(declared[base])
    return found


def _telling(names: Collection[str], library: Library) -> dict[str, Collection[str]]:
    """The names that point at backends, with the files that they stand in.

    A name that stands in many files (``target``) tells nothing.
    """
    limit = max(40, len(library.rows) // 12)
    standing = library.containing(names)
    return {name: standing[name] for name in sorted(names) if len(standing[name]) <= limit}
