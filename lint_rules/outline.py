"""The logical lines of a file, without parsing it: where statements start, and which are needed.

LibCST nodes carry no positions and its position provider costs twice the parse. Statements,
however, correspond one to one, in order, to logical lines, which a scan for strings, comments,
brackets and line ends finds at a fraction of that price.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

__all__ = ["LogicalLine", "each_logical_line", "groups", "joined", "logical_lines", "reduced"]

_ATOMIC = "+" if sys.version_info >= (3, 11) else ""
"""Keeps a repetition from giving back what it took, which only costs time here; new in 3.11."""

_STRING = "|".join(
    (
        rf"""'{{3}}[^'\\]*{_ATOMIC}(?:(?:\\.|'(?!''))[^'\\]*{_ATOMIC})*'{{3}}""",
        rf"""\"{{3}}[^"\\]*{_ATOMIC}(?:(?:\\.|"(?!""))[^"\\]*{_ATOMIC})*\"{{3}}""",
        rf"'[^'\\\n]*{_ATOMIC}(?:\\.[^'\\\n]*{_ATOMIC})*'",
        rf'"[^"\\\n]*{_ATOMIC}(?:\\.[^"\\\n]*{_ATOMIC})*"',
    )
)
_TOKEN = re.compile(
    rf"(?P<string>{_STRING})|(?P<comment>\#[^\n]*)|(?P<open>[(\[{{])|(?P<close>[)\]}}])"
    r"|(?P<join>\\\r?\n)|(?P<newline>\n)",
    re.DOTALL,
)


def _balanced(depth: int, plain: str, others: str) -> str:
    """Text of ``plain`` and ``others``, with brackets nested at most ``depth`` deep."""
    if depth:
        inner = _balanced(depth - 1, r"""[^'"#\\()\[\]{}]""", rf"{_STRING}|\#[^\n]*|\\\n")
        others += rf"|[(\[{{]{inner}[)\]}}]"  # which bracket closes which is for the parser to say
    return rf"{plain}*{_ATOMIC}(?:(?:{others}){plain}*{_ATOMIC})*{_ATOMIC}"


_WHOLE_LINE = re.compile(
    r"([ \t\f\r]*)(" + _balanced(6, r"""[^\n'"#\\()\[\]{}]""", _STRING) + r")(?:\#[^\n]*)?\n",
    re.DOTALL,
)
"""A logical line, or a blank one, as nearly all are written; the rest is taken token by token."""


class LogicalLine(NamedTuple):
    """One statement or clause header: offsets, 1-based first line, indentation width."""

    start: int
    end: int
    line: int
    indent: int


def logical_lines(source: str) -> list[LogicalLine]:
    """The logical lines of ``source`` in order; blank and comment lines are none."""
    return list(each_logical_line(source))


def each_logical_line(source: str, start: int = 0, line: int = 1) -> Iterator[LogicalLine]:
    """The logical lines from the offset ``start`` on, at which one begins, in ``line``.

    Each is found when it is asked for.
    """
    whole_line = _WHOLE_LINE.match
    while True:
        match = whole_line(source, start)
        if match is not None:
            if match.end(2) > match.end(1):
                yield LogicalLine(start, match.end() - 1, line, match.end(1) - start)
            end = match.end()
            line += source.count("\n", start, end)
            start = end
        elif start < len(source):
            end = _end(source, start)
            text = source[start:end]
            stripped = text.lstrip(" \t\f\r")
            if stripped and stripped[0] != "#":
                yield LogicalLine(start, end, line, len(text) - len(stripped))
            line += text.count("\n") + 1
            start = end + 1
        else:
            return


def _end(source: str, start: int) -> int:
    """Where the logical line that begins at ``start`` ends: its line feed, or the text's end."""
    depth = 0
    for match in _TOKEN.finditer(source, start):
        kind = match.lastgroup
        if kind == "newline":
            if depth == 0:
                return match.start()
        elif kind == "open":
            depth += 1
        elif kind == "close":
            depth = max(0, depth - 1)
    return len(source)


def joined(source: str, lines: Iterable[LogicalLine]) -> str:
    """The text of ``lines`` alone: without the comments and blank lines that stand between them."""
    return "".join(source[entry.start : entry.end] + "\n" for entry in lines)


_BLOCK = re.compile(r"(async\s+)?(def|class)\b|@")
_IMPORT = re.compile(r"(from|import)\b")
_COMPOUND = re.compile(r"(if|elif|else|try|except|finally|for|while|with|match|async)\b")


def groups(lines: Sequence[LogicalLine]) -> Iterator[tuple[int, int]]:
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
        kept.append(joined(source, lines[start:end]))
        numbers.extend(entry.line for entry in lines[start:end])

    def text(start: int, end: int) -> str:
        return source[lines[start].start : lines[end - 1].end]

    def head(index: int) -> str:
        entry = lines[index]
        return source[entry.start : entry.end].lstrip()

    def visit(start: int, stop: int) -> None:
        group = iter([(start + a, start + b) for a, b in groups(lines[start:stop])])
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
