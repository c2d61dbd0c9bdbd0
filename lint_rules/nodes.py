"""What LibCST's native parser makes of a text, in nodes that cost little to make.

The parser builds its tree by calling the classes of the module that it imports as ``libcst``, once
for each node. LibCST's own are dataclasses that validate themselves; to import them takes longer
than to parse a file. While :func:`parsing` lasts, this module stands in for theirs: its classes
have the names and fields of LibCST's, are made when they are first asked for, and stand in no
hierarchy but that an expression is a :class:`BaseExpression`. White space and punctuation, two
thirds of all nodes, are None.
"""

from __future__ import annotations

import sys
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst

__all__ = [
    "BaseExpression",
    "Node",
    "ParserSyntaxError",
    "lightened",
    "own",
    "parsed_whole",
    "parsing",
    "written",
]

_EXPRESSIONS = frozenset(
    (
        "Attribute", "Await", "BinaryOperation", "BooleanOperation", "Call", "Comparison",
        "Dict", "DictComp", "Ellipsis", "Float", "FormattedString", "GeneratorExp", "Imaginary",
        "Integer", "Lambda", "List", "ListComp", "Name", "NamedExpr", "Set", "SetComp",
        "StarredDictComp", "StarredElement", "Subscript", "TemplatedString", "Tuple",
        "UnaryOperation", "Yield",
    )
)  # fmt: skip


class ParserSyntaxError(Exception):
    """As :class:`libcst.ParserSyntaxError`: ``raw_line`` is 1-based."""

    def __init__(self, message: str, *, lines: object, raw_line: int, raw_column: int) -> None:
        super().__init__(message)
        self.message = message
        self.raw_line = raw_line


class Node(SimpleNamespace):
    """A node with LibCST's fields; what may be left out of a text is None where it is."""

    @property
    def children(self) -> Iterator[Node]:
        """The nodes in its fields, in the order of the text."""
        return self._among(vars(self).values())

    @staticmethod
    def _among(values: Any) -> Iterator[Node]:
        for value in values:
            if isinstance(value, Node):
                yield value
            elif isinstance(value, (list, tuple)):
                yield from (item for item in value if isinstance(item, Node))


for _optional in (
    "annotation", "asname", "default", "exc", "finalbody", "guard", "inner_for_in", "keyword",
    "lower", "module", "msg", "name", "orelse", "pattern", "returns", "star_arg", "star_kwarg",
    "step", "type", "upper", "value",
):  # fmt: skip
    setattr(Node, _optional, None)


class BaseExpression(Node):
    """What has a value."""


class IfExp(BaseExpression):
    """``body if test else orelse``: the parser names the test first."""

    @property
    def children(self) -> Iterator[Node]:
        return self._among((self.body, self.test, self.orelse))


class SimpleString(BaseExpression):
    """A string or bytes literal."""

    @property
    def evaluated_value(self) -> str | bytes:
        text: str = self.value
        inner = text[1:-1]
        if text[0] in "\"'" and "\\" not in inner and text[:3] not in ('"""', "'''"):
            return inner
        value: str | bytes = literal_eval(text)
        return value


class ConcatenatedString(BaseExpression):
    """Literals one after the other."""

    @property
    def evaluated_value(self) -> str | bytes | None:
        """What they are together, None where one is no plain literal."""
        left, right = (getattr(part, "evaluated_value", None) for part in (self.left, self.right))
        if isinstance(left, str) and isinstance(right, str):
            return left + right
        if isinstance(left, bytes) and isinstance(right, bytes):
            return left + right
        return None


def _unread(**_: object) -> None:
    """A node that no fact is made of."""


AssignEqual = Colon = Comma = Comment = Dot = EmptyLine = Newline = Semicolon = _unread
LeftCurlyBrace = LeftParen = LeftSquareBracket = ParenthesizedWhitespace = _unread
RightCurlyBrace = RightParen = RightSquareBracket = SimpleWhitespace = _unread
TrailingWhitespace = _unread


def __getattr__(name: str) -> type[Node]:
    """The class of a node, made when it is first asked for."""
    if not name[0].isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    base = BaseExpression if name in _EXPRESSIONS else Node
    made = globals()[name] = type(name, (base,), {"__module__": __name__})
    return made


@contextmanager
def parsing() -> Iterator[Callable[[str], libcst.Module]]:
    """What parses a module, into nodes of this one, as long as the context lasts.

    It raises :class:`ParserSyntaxError`. No other thread may import LibCST meanwhile.
    """
    parse = _native()
    own = sys.modules.get("libcst")
    sys.modules["libcst"] = sys.modules[__name__]
    try:
        yield parse
    finally:
        if own is None:
            del sys.modules["libcst"]
        else:
            sys.modules["libcst"] = own


@cache
def _native() -> Callable[[str], libcst.Module]:
    """LibCST's parser, loaded without the rest of LibCST."""
    name = "libcst.native"
    if name not in sys.modules:
        package = find_spec("libcst")
        folders = package.submodule_search_locations if package is not None else None
        spec = PathFinder.find_spec(name, folders)
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        native = module_from_spec(spec)
        spec.loader.exec_module(native)
        sys.modules[name] = native
    parse: Callable[[str], libcst.Module] = sys.modules[name].parse_module
    return parse


def parsed_whole(text: str) -> libcst.Module:
    """The module that ``text`` is, :func:`lightened`. Raises :class:`libcst.ParserSyntaxError`."""
    from libcst import parse_module

    return lightened(parse_module(text))


def lightened(tree: libcst.Module) -> libcst.Module:
    """A tree of LibCST's own, in nodes of this module that know theirs."""
    made: libcst.Module = _light(tree)
    return made


def own(node: libcst.CSTNode) -> libcst.CSTNode | None:
    """LibCST's node of one that was :func:`lightened`; None for any other."""
    found: libcst.CSTNode | None = vars(node).get("own")
    return found


def written(node: libcst.CSTNode) -> str | None:
    """How a :func:`lightened` node is written; None for any other."""
    from libcst import Module

    found = own(node)
    return Module([]).code_for_node(found) if found is not None else None


def _light(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_light, value))
    if not is_dataclass(value):
        return value if isinstance(value, str) else None  # LibCST's sentinels are for writing
    kind = getattr(sys.modules[__name__], type(value).__name__)
    node = kind(**{field.name: _light(getattr(value, field.name)) for field in fields(value)})
    if node is not None:
        node.own = value
    return node
