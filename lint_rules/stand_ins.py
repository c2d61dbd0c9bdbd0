"""Classes that stand in for each other without a common base class, by what functions return."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["stand_ins"]

_END = re.compile(rb"^(?=[A-Za-z_@])", re.MULTILINE)
_METHOD = re.compile(rb"^[ \t]+def[ \t]+([A-Za-z]\w*)", re.MULTILINE)
_SHARED = 3
"""Two classes with fewer public methods in common are alternatives, not stand-ins."""


def stand_ins(
    eithers: Iterable[tuple[str, str]],
    texts: Mapping[str, bytes],
    declared: Mapping[str, set[str]],
    above: Callable[[str, str], set[str]],
) -> list[tuple[str, str]]:
    """Those of ``eithers``, the pairs of which functions return one, that stand in for each other.

    Both are classes of the project, each the only one of its name, without a common base class in
    it, and most of the public methods of each are the other's too. ``texts`` are the bytes of
    files, ``declared`` maps the names of classes to files, ``above`` gives the names of the bases
    of a class in a file.
    """
    found = {
        (a, b) for a, b in eithers if len(declared.get(a, ())) == len(declared.get(b, ())) == 1
    }
    return sorted(
        (a, b)
        for a, b in found
        if (b, a) not in found or a < b
        if not {*_ancestry(a, declared, above)} & {*_ancestry(b, declared, above)}
        and _alike(_methods(texts, declared, a), _methods(texts, declared, b))
    )


def _ancestry(
    name: str, declared: Mapping[str, set[str]], above: Callable[[str, str], set[str]]
) -> Iterator[str]:
    """A class and what it derives from, as far as the project declares it."""
    seen = {name}
    queue = [name]
    while queue:
        current = queue.pop()
        yield current
        for path in declared[current]:
            new = {b for b in above(current, path) if b in declared} - seen
            seen |= new
            queue += new


def _methods(
    texts: Mapping[str, bytes], declared: Mapping[str, set[str]], name: str
) -> frozenset[bytes]:
    """The public methods that the body of a top-level class defines."""
    [path] = declared[name]
    text = texts[path]
    header = re.search(rb"^class[ \t]+" + name.encode() + rb"\b", text, re.MULTILINE)
    if header is None:
        return frozenset()
    end = _END.search(text, header.end())
    body = text[header.end() : end.start() if end is not None else None]
    return frozenset(_METHOD.findall(body))


def _alike(a: frozenset[bytes], b: frozenset[bytes]) -> bool:
    return len(a & b) >= _SHARED and 2 * len(a & b) >= max(len(a), len(b))
