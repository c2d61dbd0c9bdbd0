"""Which files can matter: a byte scan, headers first, widened until nothing is added."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lint_rules.stand_ins import stand_ins

__all__ = ["Scan", "scan", "shortest", "walk"]

_HEADER = re.compile(rb"^[ \t]*class[ \t]+([\w\x80-\xff]+)[ \t]*(?=[\[(:])", re.MULTILINE)
_NESTING = re.compile(rb"[\[\](){}]|:|\#[^\n]*")
_MOST_NAMESAKES = 4
_WORD = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*")
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}


def walk(
    top: Path,
    exclude: Callable[[str], bool] | None = None,
    failed: Callable[[OSError], None] | None = None,
) -> list[str]:
    """The Python files below ``top`` (or ``top`` itself), sorted; hidden ones are left out.

    ``failed`` is handed the error of a folder that cannot be listed.
    """
    if not top.is_dir():
        return [str(top)]
    found: list[str] = []
    for folder, folders, names in os.walk(top, onerror=failed):
        folders[:] = sorted(
            d
            for d in folders
            if not d.startswith(".")
            and d not in _SKIPPED
            and not (exclude is not None and exclude(os.path.join(folder, d) + "/"))
            and not os.path.exists(os.path.join(folder, d, "pyvenv.cfg"))
        )
        for name in sorted(names):
            if name.endswith(".py") and not name.startswith("."):
                path = os.path.join(folder, name)
                if exclude is None or not exclude(path):
                    found.append(path)
    return found


@dataclass
class Scan:
    """What the byte scan found.

    ``family`` maps each name of a class that derives, by name, from a root to the files that
    define it; ``needles`` are names of attributes and functions that hold or return a backend.
    ``stand_ins`` are the pairs of classes that stand in for each other, ``declared`` the files that
    declare a class of each name, whatever it derives from.
    """

    sources: dict[str, bytes]
    family: dict[str, set[str]]
    needles: frozenset[str]
    defining: frozenset[str]
    using: frozenset[str]
    unreadable: dict[str, str] = field(default_factory=dict)
    stand_ins: tuple[tuple[str, str], ...] = ()
    declared: dict[str, set[str]] = field(default_factory=dict)


def scan(
    paths: Iterable[str],
    roots: Sequence[str],
    companions: Sequence[str] = (),
    pairs: Sequence[tuple[str, str]] = (),
) -> Scan:
    """Read every path once and find the files that define or use a class below ``roots``.

    Of the hierarchies below ``companions`` only the definitions are looked for. ``pairs`` stand in
    for each other, like those that the sources say so of.
    """
    sources: dict[str, bytes] = {}
    unreadable: dict[str, str] = {}
    for path in paths:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                unreadable[path] = "is no regular file"
                continue
            with open(path, "rb") as file:
                sources[path] = file.read()
        except OSError as error:
            unreadable[path] = error.strerror or str(error)
    headers = _headers(sources)
    pairs = (*pairs, *stand_ins(sources, headers.declared, headers.above))
    tops = {root.rpartition(".")[2] for root in roots} | {name for pair in pairs for name in pair}
    family = _family(sources, headers, tops)
    beside = _family(sources, headers, {root.rpartition(".")[2] for root in companions})
    defining = frozenset(path for files in family.values() for path in files)
    names = shortest(family)
    mentioning = {p for p in _pool(family, sources) if any(n in sources[p] for n in names)}
    needles = _needles(sources, mentioning - defining, family)
    telling = _telling(needles, sources)
    needles = frozenset(telling)
    using = {path for files in telling.values() for path in files}
    family |= {name: files | family.get(name, set()) for name, files in beside.items()}
    defining |= {path for files in beside.values() for path in files}
    building = shortest(n for n in beside if n not in {r.rpartition(".")[2] for r in companions})
    using |= {p for p in _pool(beside, sources) if any(b in sources[p] for b in building)}
    return Scan(
        sources,
        family,
        needles,
        defining,
        frozenset((using | mentioning) - defining),
        unreadable,
        tuple(dict.fromkeys(pairs)),
        headers.declared,
    )


@dataclass
class _Headers:
    """Every class statement: what derives from a name, what a class derives from, and where."""

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
            for word in _WORD.findall(_bases(data, match.end())):
                base = word.decode()
                found.below.setdefault(base, []).append((name, path))
                found.above.setdefault((name, path), set()).add(base)
    return found


def _bases(data: bytes, start: int) -> bytes:
    """What stands between a class's name and the colon that ends its header, comments left out."""
    depth, kept, begin = 0, [], start
    for match in _NESTING.finditer(data, start):
        token = match.group()
        if token[:1] == b"#":
            kept.append(data[begin : match.start()])
            begin = match.end()
        elif token in b"[({":
            depth += 1
        elif token in b"])}":
            depth -= 1
        elif depth == 0:
            break
    else:
        return b""
    return b"".join(kept) + data[begin : match.start()]


def _family(sources: dict[str, bytes], headers: _Headers, roots: set[str]) -> dict[str, set[str]]:
    """The classes below ``roots`` and, of mixins, those above the classes found, by name."""
    below, declared = headers.below, headers.declared
    found: dict[str, set[str]] = {r: set(declared[r]) for r in roots if r in declared}
    queue = list(found)
    seen = set(queue)
    pairs: dict[str, list[tuple[str, str]]] = {}
    while queue:
        level, queue = queue, []
        for name in level:
            for child, path in below.get(name, ()):
                found.setdefault(child, set()).add(path)
                if child not in seen:
                    seen.add(child)
                    queue.append(child)
        if not queue:
            queue = sorted(_aliases(found, sources, pairs) - seen)
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


_AS = re.compile(rb"[ \t]as[ \t]+([A-Za-z_]\w*)")
_ASSIGNED = re.compile(rb"=[ \t]*([A-Z_]\w*)[ \t]*\r?\n")
_LAST_WORD = re.compile(rb"(\w+)[ \t]*$")


def _aliases(
    names: Iterable[str], sources: dict[str, bytes], known: dict[str, list[tuple[str, str]]]
) -> set[str]:
    """Other names that an import or an assignment gives to one of ``names``.

    ``known`` keeps what was found in a file: pairs of a name and its other name.
    """
    wanted = set(names)
    found: set[str] = set()
    for path in _pool(wanted, sources):
        pairs = known.get(path)
        if pairs is None:
            data = sources[path]
            pairs = known[path] = [*_renamings(data)]
        found.update(alias for name, alias in pairs if name in wanted)
    return found - wanted


def _renamings(data: bytes) -> Iterator[tuple[str, str]]:
    """``Name as X`` and ``X = Name`` lines: the name and ``X``."""
    for match in _AS.finditer(data):
        source = _before(data, match.start())
        if source:
            yield source, match.group(1).decode()
    for match in _ASSIGNED.finditer(data):
        target = _before(data, match.start())
        if target:
            yield match.group(1).decode(), target


def _before(data: bytes, offset: int) -> str:
    """The word that ends at ``offset``, white space aside."""
    found = _LAST_WORD.search(data, data.rfind(b"\n", 0, offset) + 1, offset)
    return found.group(1).decode() if found is not None else ""


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
    built = re.compile(rb"\breturn[ \t]+(?:\w+\.)*(?:" + names + rb")\(")
    found: set[str] = set()
    for path in paths:
        data = sources[path]
        for pattern in (annotated, returned, assigned):
            found.update(m.decode() for m in pattern.findall(data))
        for match in built.finditer(data):
            header = data.rfind(b"def ", 0, match.start())
            name = _WORD.match(data, header + 4) if header >= 0 else None
            found.update([name.group().decode()] if name is not None else [])
    return frozenset(n for n in found if len(n) > 4 and n not in family)


def _telling(names: Iterable[str], sources: dict[str, bytes]) -> dict[str, list[str]]:
    """The names that point at backends, with the files that they stand in.

    A name that stands in many files (``target``) tells nothing. A longer name stands in a part of
    the files of a shorter one that it contains; its own files are not looked up.
    """
    limit = max(40, len(sources) // 12)
    found: dict[str, list[str]] = {}
    for name in sorted(names, key=len):
        if any(short in name for short in found):
            found[name] = []
            continue
        needle, files = name.encode(), []
        for path, data in sources.items():
            if needle in data:
                files.append(path)
                if len(files) > limit:
                    break
        else:
            found[name] = files
    return found


def shortest(names: Iterable[str]) -> list[bytes]:
    """The names that contain no other of them: who has the longer has the shorter."""
    kept: list[str] = []
    for name in sorted(set(names), key=len):
        if not any(short in name for short in kept):
            kept.append(name)
    return [name.encode() for name in kept]
