"""A text to a syntax tree, by LibCST's native parser and with as little around it as can be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import libcst as cst

from lint_rules.outline import LogicalLine, groups, joined, logical_lines

__all__ = ["parsed"]

_UNREAD = {
    kind.__name__: kind
    for kind in (
        cst.AssignEqual, cst.Comma, cst.Comment, cst.Dot, cst.EmptyLine, cst.Newline,
        cst.ParenthesizedWhitespace, cst.SimpleWhitespace, cst.TrailingWhitespace,
    )
}  # fmt: skip
_NO_SPACE = cst.SimpleWhitespace("")
_Statement: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement
_CLAUSE = re.compile(r"(elif|else|except|finally)\b")
_CLASS = re.compile(r"class\b")


def parsed(text: str) -> cst.Module:
    """The module that ``text`` is, without its white space, comments and punctuation.

    It is parsed statement by statement, and classes member by member: the parser's time grows
    faster than the text. Raises :class:`libcst.ParserSyntaxError`, whose line is that in the part.
    """
    lines = logical_lines(text)
    parts = list(_statements(text, lines))
    with _bare():
        if any(part[0].indent for part in parts):  # an error, which no part alone may show
            return cst.parse_module(text)
        return cst.Module([node for part in parts for node in _nodes(text, part)])


@contextmanager
def _bare() -> Iterator[None]:
    """Parse without validating each node, and without nodes for what no fact is made of.

    LibCST validates nodes when they are made, those of its own parser as well (the comment in its
    ``CSTNode.__post_init__`` says so); what a parser made of a text needs none. White space and
    punctuation, two thirds of the nodes, are all one and the same.
    """
    validate = cst.CSTNode.__post_init__
    cst.CSTNode.__post_init__ = lambda self: None  # type: ignore[method-assign]
    for name in _UNREAD:
        setattr(cst, name, lambda **_: _NO_SPACE)
    try:
        yield
    finally:
        cst.CSTNode.__post_init__ = validate  # type: ignore[method-assign]
        for name, kind in _UNREAD.items():
            setattr(cst, name, kind)


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


def _nodes(text: str, lines: Sequence[LogicalLine]) -> Sequence[_Statement]:
    """The statement of ``lines``, parsed."""
    header = next((i for i, e in enumerate(lines) if not _opening(text, e).startswith("@")), 0)
    members = list(_statements(text, lines[header + 1 :]))
    indents = {text[m[0].start : m[0].start + m[0].indent] for m in members}
    if len(members) < 2 or len(indents) > 1 or not _CLASS.match(_opening(text, lines[header])):
        return _body(joined(text, lines))
    (klass,) = _body(f"{joined(text, lines[: header + 1])}{indents.pop()}pass\n")
    assert isinstance(klass, cst.ClassDef)
    assert isinstance(klass.body, cst.IndentedBlock)
    inside: list[cst.BaseStatement] = []
    for member in members:
        (around,) = _body("class _:\n" + joined(text, member))
        assert isinstance(around, cst.ClassDef)
        assert isinstance(around.body, cst.IndentedBlock)
        inside += around.body.body
    return [klass.with_changes(body=klass.body.with_changes(body=inside))]


def _body(text: str) -> Sequence[_Statement]:
    return cst.parse_module(text).body
