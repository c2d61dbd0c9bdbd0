"""Which files can matter: a byte scan, headers first, widened until nothing is added."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

__all__ = ["Scan", "scan", "walk"]

_HEADER = re.compile(
    rb"^[ \t]*class[ \t]+(\w+)[ \t]*(?:\[[^\]]*\][ \t]*)?(?:\(([^)]*)\)|:)", re.MULTILINE
)
_MOST_NAMESAKES = 4
_WORD = re.compile(rb"[A-Za-z_]\w*")
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}


def walk(top: Path, exclude: Callable[[str], bool] | None = None) -> list[str]:
    """The Python files below ``top`` (or ``top`` itself), sorted; hidden folders are left out."""
    if top.is_file():
        return [str(top)]
    found: list[str] = []
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(
            d
            for d in folders
            if not d.startswith(".")
            and d not in _SKIPPED
            and not (exclude is not None and exclude(os.path.join(folder, d) + "/"))
            and not os.path.exists(os.path.join(folder, d, "pyvenv.cfg"))
        )
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                if exclude is None or not exclude(path):
                    found.append(path)
    return found


@dataclass
class Scan:
    """What the byte scan found.

    ``family`` maps each name of a class that derives, by name, from a root to the files that
    define it; ``needles`` are names of attributes and functions that hold or return a backend.
    """

    sources: dict[str, bytes]
    family: dict[str, set[str]]
    needles: frozenset[str]
    defining: frozenset[str]
    using: frozenset[str]
    unreadable: dict[str, str] = field(default_factory=dict)


def scan(paths: Iterable[str], roots: Sequence[str], companions: Sequence[str] = ()) -> Scan:
    """Read every path once and find the files that define or use a class below ``roots``.

    Of the hierarchies below ``companions`` only the definitions are looked for.
    """
    sources: dict[str, bytes] = {}
    unreadable: dict[str, str] = {}
    for path in paths:
        try:
            with open(path, "rb") as file:
                sources[path] = file.read()
        except OSError as error:
            unreadable[path] = error.strerror or str(error)
    headers = _headers(sources)
    family = _family(sources, headers, {root.rpartition(".")[2] for root in roots})
    beside = _family(sources, headers, {root.rpartition(".")[2] for root in companions})
    defining = frozenset(path for files in family.values() for path in files)
    names = _shortest(family)
    mentioning = {p for p in _pool(family, sources) if any(n in sources[p] for n in names)}
    needles = _needles(sources, mentioning - defining, family)
    needles = frozenset(n for n in needles if _telling(n, sources))
    short = _shortest(needles)
    using = {p for p, data in sources.items() if any(n in data for n in short)}
    family |= {name: files | family.get(name, set()) for name, files in beside.items()}
    defining |= {path for files in beside.values() for path in files}
    return Scan(
        sources, family, needles, defining, frozenset((using | mentioning) - defining), unreadable
    )


@dataclass
class _Headers:
    """Every class statement: who derives from a name, what a class derives from, who declares it."""

    below: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    above: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    declared: dict[str, set[str]] = field(default_factory=dict)


def _headers(sources: dict[str, bytes]) -> _Headers:
    found = _Headers()
    for path, data in sources.items():
        if b"class" not in data:
            continue
        for match in _HEADER.finditer(data):
            name = match.group(1).decode()
            found.declared.setdefault(name, set()).add(path)
            for word in _WORD.findall(match.group(2) or b""):
                base = word.decode()
                found.below.setdefault(base, []).append((name, path))
                found.above.setdefault((name, path), set()).add(base)
    return found


def _family(sources: dict[str, bytes], headers: _Headers, roots: set[str]) -> dict[str, set[str]]:
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
            queue = sorted(_aliases(found, sources) - seen)
            seen.update(queue)
    rising = [(name, path) for name, files in found.items() for path in files]
    while rising:
        for base in headers.above.get(rising.pop(), ()):
            for path in declared.get(base, ()) if base not in found else ():
                if len(declared[base]) <= _MOST_NAMESAKES:
                    rising.append((base, path))
            if base in declared and len(declared[base]) <= _MOST_NAMESAKES:
                found.setdefault(base, set()).update(declared[base])
    return found


def _aliases(names: Iterable[str], sources: dict[str, bytes]) -> set[str]:
    """Other names that an import or an assignment gives to one of ``names``."""
    found: set[str] = set()
    known = [n.encode() for n in names]
    for path in _pool(names, sources):
        data = sources[path]
        for needle in known:
            if needle + b" as " in data:
                found.update(
                    m.decode() for m in re.findall(rb"\b" + needle + rb" as (\w+)", data)
                )
            if b"= " + needle + b"\n" in data:
                pattern = rb"^[ \t]*(\w+) = " + needle + rb"$"
                found.update(m.decode() for m in re.findall(pattern, data, re.MULTILINE))
    return found - set(names)


_HUMP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def _pool(names: Iterable[str], sources: dict[str, bytes]) -> list[str]:
    """The files that can mention one of ``names``: those with one of a few words common to them.

    Searching every file for every name costs a second; ``Backend`` alone stands in most names.
    """
    left = set(names)
    words: list[bytes] = []
    while left:
        humps: dict[str, int] = {}
        for name in left:
            for hump in {h for h in _HUMP.findall(name) if len(h) > 3}:
                humps[hump] = humps.get(hump, 0) + 1
        word = max(humps, key=lambda h: (humps[h], h), default="")
        if not word or humps[word] == 1:
            words += [n.encode() for n in left]
            break
        words.append(word.encode())
        left = {n for n in left if word not in n}
    return [p for p, data in sources.items() if any(w in data for w in words)]


def _needles(
    sources: dict[str, bytes], paths: Iterable[str], family: dict[str, set[str]]
) -> frozenset[str]:
    """Attributes, parameters and functions annotated with, or assigned from, a family class."""
    names = b"|".join(re.escape(n.encode()) for n in sorted(family))
    annotated = re.compile(
        rb"(\w+)[ \t]*:[ \t]*[\"']?(?:[\w.]+\[[ \t]*)*[\"']?(?:\w+\.)*(?:" + names + rb")\b"
    )
    returned = re.compile(
        rb"def[ \t]+(\w+)[ \t]*\([^()]*(?:\([^()]*\)[^()]*)*\)[ \t]*->[ \t]*[\"']?"
        rb"(?:[\w.]+\[[ \t]*)*[\"']?(?:\w+\.)*(?:" + names + rb")\b"
    )
    assigned = re.compile(rb"\.(\w+)[ \t]*=[ \t]*(?:\w+\.)*(?:" + names + rb")\(")
    found: set[str] = set()
    for path in paths:
        data = sources[path]
        for pattern in (annotated, returned, assigned):
            found.update(m.decode() for m in pattern.findall(data))
    return frozenset(n for n in found if len(n) > 4 and n not in family)


def _telling(name: str, sources: dict[str, bytes]) -> bool:
    """Whether a name points at backends: one that stands in many files (``target``) does not."""
    needle = name.encode()
    return sum(needle in data for data in sources.values()) <= max(40, len(sources) // 12)


def _shortest(names: Iterable[str]) -> list[bytes]:
    """The names that contain no other of them: who has the longer has the shorter."""
    kept: list[str] = []
    for name in sorted(set(names), key=len):
        if not any(short in name for short in kept):
            kept.append(name)
    return [name.encode() for name in kept]
