"""The logical lines of a file, without parsing it: where statements start, and which are needed.

LibCST nodes carry no positions and its position provider costs twice the parse. Statements,
however, correspond one to one, in order, to logical lines, which a scan for strings, comments,
brackets and line ends finds at a fraction of that price.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["LogicalLine", "logical_lines", "reduced"]

_TOKEN = re.compile(
    r"""(?P<string>[rRbBuUfFtT]{0,2}(?:'{3}(?:[^\\]|\\.)*?'{3}|"{3}(?:[^\\]|\\.)*?"{3}"""
    r"""|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))"""
    r"""|(?P<comment>\#[^\n]*)|(?P<open>[(\[{])|(?P<close>[)\]}])"""
    r"""|(?P<join>\\\r?\n)|(?P<newline>\n)""",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class LogicalLine:
    """One statement or clause header: offsets, 1-based first line, indentation width."""

    start: int
    end: int
    line: int
    indent: int


def logical_lines(source: str) -> list[LogicalLine]:
    """The logical lines of ``source`` in order; blank and comment lines are none."""
    found: list[LogicalLine] = []
    depth = 0
    start = 0
    first = line = 1
    blank = True
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup
        if kind == "newline":
            if depth == 0:
                _close(found, source, start, match.start(), first, blank)
                start, blank = match.end(), True
                first = line + 1
            line += 1
            continue
        if kind == "comment":
            if blank and depth == 0 and not source[start : match.start()].strip():
                continue
        elif kind == "open":
            depth += 1
        elif kind == "close":
            depth = max(0, depth - 1)
        elif kind == "join":
            line += 1
        else:
            line += match.group().count("\n")
        blank = False
    _close(found, source, start, len(source), first, blank)
    return found


def _close(
    found: list[LogicalLine], source: str, start: int, end: int, first: int, blank: bool
) -> None:
    text = source[start:end]
    stripped = text.lstrip(" \t\f\r")
    if not stripped or (blank and stripped[0] == "#"):
        return
    found.append(LogicalLine(start, end, first, len(text) - len(stripped)))


_BLOCK = re.compile(r"(async\s+)?(def|class)\b|@")
_IMPORT = re.compile(r"(from|import)\b")
_COMPOUND = re.compile(r"(if|elif|else|try|except|finally|for|while|with|match|async)\b")


def _groups(lines: list[LogicalLine]) -> Iterator[tuple[int, int]]:
    """Slices of ``lines``: each a statement at the first one's indentation with its whole body."""
    index = 0
    while index < len(lines):
        indent = lines[index].indent
        end = index + 1
        while end < len(lines) and lines[end].indent > indent:
            end += 1
        yield index, end
        index = end


def reduced(
    source: str, wanted: Callable[[str], bool], whole: Callable[[str], bool]
) -> tuple[str, list[int]]:
    """``source`` cut down to what can matter, and the line of each logical line that is left.

    Kept are imports, classes for whose header ``whole`` answers yes, functions and statements for
    whose text ``wanted`` does, and of other classes the header with the wanted members. What is
    cut away inside a class leaves a ``pass``.
    """
    lines = logical_lines(source)
    kept: list[str] = []
    numbers: list[int] = []

    def keep(start: int, end: int) -> None:
        stop = lines[end].start if end < len(lines) else len(source)
        kept.append(source[lines[start].start : stop])
        numbers.extend(entry.line for entry in lines[start:end])

    def text(start: int, end: int) -> str:
        return source[lines[start].start : lines[end - 1].end]

    def head(index: int) -> str:
        entry = lines[index]
        return source[entry.start : entry.end].lstrip()

    def visit(start: int, stop: int) -> None:
        group = iter([(start + a, start + b) for a, b in _groups(lines[start:stop])])
        pending: int | None = None
        chain: tuple[int, int] | None = None
        for begin, end in group:
            opening = head(begin)
            if opening.startswith("@"):
                pending = begin if pending is None else pending
                continue
            first = begin if pending is None else pending
            pending = None
            if re.match(r"(elif|else|except|finally)\b", opening) and chain is not None:
                chain = (chain[0], end)
                continue
            if chain is not None:
                _keep_chain(chain)
                chain = None
            if _BLOCK.match(opening):
                _keep_block(first, begin, end, opening)
            elif _IMPORT.match(opening):
                keep(first, end)
            elif _COMPOUND.match(opening):
                chain = (first, end)
            elif wanted(text(first, end)):
                keep(first, end)
        if chain is not None:
            _keep_chain(chain)

    def _keep_chain(chain: tuple[int, int]) -> None:
        body = text(*chain)
        if "import" in body or wanted(body) or ("class" in body and whole(body)):
            keep(*chain)

    def _keep_block(first: int, begin: int, end: int, opening: str) -> None:
        body = text(first, end)
        if not opening.startswith("class"):
            if wanted(body):
                keep(first, end)
            return
        if whole(opening):
            keep(first, end)
        elif wanted(body):
            if end == begin + 1:
                keep(first, end)
                return
            keep(first, begin + 1)
            count = len(numbers)
            visit(begin + 1, end)
            if len(numbers) == count:
                kept.append(" " * lines[begin + 1].indent + "pass\n")
                numbers.append(lines[begin].line)

    visit(0, len(lines))
    return "".join(kept), numbers
