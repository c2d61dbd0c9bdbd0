"""Where would an attribute have been created, and which flags kept it from that?

Asked when an attribute is missing and the answer goes into the error: not on any good path.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

from .book import MISSING
from .contract import name_of
from .diagnostic import Place, Related

__all__ = ["creation"]


def creation(instance: object, attribute: str) -> tuple[tuple[Related, ...], tuple[str, ...]]:
    """The assignments of ``self.attribute`` in the class's sources, and why none was reached.

    The second part says the condition of each assignment and the values that the instance has for
    the attributes in it.
    """
    places: list[Related] = []
    reasons: list[str] = []
    for owner in type(instance).__mro__[:-1]:
        for line, column, path, tests in _assignments(owner, attribute):
            condition = " and ".join(tests)
            only_if = f" only if {condition}" if condition else ""
            said = f"{name_of(owner)} creates {attribute}{only_if}"
            places.append(Related(Place(path, line, column), said))
            values = [
                f"{name} is {value!r:.60}"
                for name in dict.fromkeys(n for test in tests for n in _names(test))
                if (value := getattr(instance, name, MISSING)) is not MISSING
            ]
            if values:
                reasons.append(f"on this {name_of(type(instance))} {', '.join(values)}")
    return tuple(places), tuple(dict.fromkeys(reasons))


def _assignments(owner: type, attribute: str) -> Iterator[tuple[int, int, str, tuple[str, ...]]]:
    try:
        lines, first = inspect.getsourcelines(owner)
        path = inspect.getsourcefile(owner) or "<unknown>"
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return
    indent = len(lines[0]) - len(lines[0].lstrip())
    for node, tests in _stores(tree, attribute, ()):
        column = (node.end_col_offset or 0) - len(attribute) + 1 + indent
        yield node.lineno + max(first, 1) - 1, column, path, tests


def _stores(
    node: ast.AST, attribute: str, tests: tuple[str, ...]
) -> Iterator[tuple[ast.Attribute, tuple[str, ...]]]:
    if (
        isinstance(node, ast.Attribute)
        and node.attr == attribute
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
    ):
        yield node, tests
    if isinstance(node, ast.If):
        test = ast.unparse(node.test)
        for then in node.body:
            yield from _stores(then, attribute, (*tests, test))
        for otherwise in node.orelse:
            yield from _stores(otherwise, attribute, (*tests, f"not ({test})"))
    else:
        for child in ast.iter_child_nodes(node):
            yield from _stores(child, attribute, tests)


def _names(test: str) -> list[str]:
    """The attributes of self and the parameters that a condition names."""
    return [
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(ast.parse(test, mode="eval"))
        if isinstance(node, (ast.Attribute, ast.Name))
    ]
