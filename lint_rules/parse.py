"""A text to a syntax tree, by LibCST's native parser and with as little around it as can be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from lint_rules.nodes import parsing
from lint_rules.outline import LogicalLine, groups, joined, logical_lines

if TYPE_CHECKING:
    import libcst as cst

    _Parse: TypeAlias = Callable[[str], cst.Module]
    _Statement: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement
else:
    from lint_rules import nodes as cst

__all__ = ["parsed"]

_CLAUSE = re.compile(r"(elif|else|except|finally)\b")
_CLASS = re.compile(r"class\b")


def parsed(text: str) -> cst.Module:
    """The module that ``text`` is, in the nodes of :mod:`lint_rules.nodes`.

    It is parsed statement by statement, and classes member by member: the parser's time grows
    faster than the text. Raises :class:`lint_rules.nodes.ParserSyntaxError`, whose line is that in
    the part.
    """
    lines = logical_lines(text)
    parts = list(_statements(text, lines))
    with parsing() as parse:
        if any(part[0].indent for part in parts):  # an error, which no part alone may show
            return parse(text)
        return cst.Module(body=[node for part in parts for node in _nodes(text, part, parse)])


def _statements(text: str, lines: Sequence[LogicalLine]) -> Iterator[Sequence[LogicalLine]]:
    """The lines of each statement, decorators and later clauses included."""
    start = end = 0
    decorated = False
    for begin, stop in groups(lines):
        opening = _opening(text, lines[begin])
        if not (decorated or _CLAUSE.match(opening)):
            if end:
                yield lines[start:end]
            start = begin
        end = stop
        decorated = opening.startswith("@")
    if end:
        yield lines[start:end]


def _opening(text: str, line: LogicalLine) -> str:
    return text[line.start + line.indent : line.end]


def _nodes(text: str, lines: Sequence[LogicalLine], parse: _Parse) -> Sequence[_Statement]:
    """The statement of ``lines``, parsed."""
    header = next((i for i, e in enumerate(lines) if not _opening(text, e).startswith("@")), 0)
    members = list(_statements(text, lines[header + 1 :]))
    indents = {text[m[0].start : m[0].start + m[0].indent] for m in members}
    if len(members) < 2 or len(indents) > 1 or not _CLASS.match(_opening(text, lines[header])):
        return parse(joined(text, lines)).body
    (klass,) = parse(f"{joined(text, lines[: header + 1])}{indents.pop()}pass\n").body
    assert isinstance(klass, cst.ClassDef)
    inside: list[cst.BaseStatement] = []
    for member in members:
        (around,) = parse("class _:\n" + joined(text, member)).body
        assert isinstance(around, cst.ClassDef)
        assert isinstance(around.body, cst.IndentedBlock)
        inside += around.body.body
    klass.body.body = inside  # type: ignore[misc]
    return [klass]
