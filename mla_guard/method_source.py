"""The source of a method as a syntax tree; asked for where a body has to be read."""

from __future__ import annotations

import ast
import inspect
from types import FunctionType
from typing import NamedTuple

__all__ = ["MethodSource", "attribute_in_source", "source_of"]


class MethodSource(NamedTuple):
    """A parsed definition; add ``line`` and ``column`` to its positions for those in the file."""

    definition: ast.FunctionDef | ast.AsyncFunctionDef
    line: int
    column: int


def source_of(function: FunctionType) -> MethodSource | None:
    """The definition of ``function``; None where its source cannot be read."""
    parsed = _parsed(function)
    if parsed is None:
        return None
    definition, line, column = parsed
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    return MethodSource(definition, line, column)


def attribute_in_source(cls: type, name: str) -> tuple[int, int] | None:
    """Line and 1-based column of the assignment or annotation of ``name`` in a class body."""
    parsed = _parsed(cls)
    if parsed is None:
        return None
    body, line, column = parsed
    for node in ast.walk(body):
        targets = node.targets if isinstance(node, ast.Assign) else ()
        for target in (node.target,) if isinstance(node, ast.AnnAssign) else targets:
            if isinstance(target, ast.Name) and target.id == name:
                return target.lineno + line, target.col_offset + column + 1
    return None


def _parsed(target: FunctionType | type) -> tuple[ast.stmt, int, int] | None:
    import textwrap

    try:
        lines, first = inspect.getsourcelines(target)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    return tree.body[0], first - 1, len(lines[0]) - len(lines[0].lstrip())
