"""One file as a repair edits it: its text, its syntax tree, and where each node stands in both."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cached_property

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

__all__ = ["Source", "SourceError", "walk"]

_LINE_END = re.compile(r"\r\n|\n|\r")


class SourceError(ValueError):
    """A file that cannot be edited; the message says why."""


class Source:
    """The text of a file, decoded as Python decodes it, with a syntax tree and its positions.

    ``path`` is as findings name it. Offsets count characters of :attr:`text`. Raises
    :class:`SourceError` where the bytes cannot be decoded and encoded again without loss.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data
        try:
            self.encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            self.text = data.decode(self.encoding)
            if self.encode(self.text) != data:
                raise SourceError(f"{path} does not survive decoding as {self.encoding}")
        except (SyntaxError, UnicodeError) as error:
            raise SourceError(f"{path} cannot be decoded: {error}") from error
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def encode(self, text: str) -> bytes:
        """``text`` in the encoding of the file, its byte order mark included."""
        return text.encode(self.encoding)

    @cached_property
    def module(self) -> cst.Module:
        try:
            return cst.parse_module(self.text)
        except cst.ParserSyntaxError as error:
            raise SourceError(f"{self.path}:{error.raw_line}: does not parse") from error

    @property
    def newline(self) -> str:
        return self.module.default_newline

    @cached_property
    def _ranges(self) -> dict[cst.CSTNode, CodeRange]:
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        return dict(wrapper.resolve(PositionProvider))

    @cached_property
    def _parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        return {child: node for node in walk(self.module) for child in node.children}

    def above(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around ``node``, innermost first."""
        parent = self._parents.get(node)
        while parent is not None:
            yield parent
            parent = self._parents.get(parent)

    def line(self, node: cst.CSTNode) -> int:
        """The 1-based line on which ``node`` begins."""
        return self._ranges[node].start.line

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """The offsets at which ``node`` begins and ends, parentheses around it included."""
        found = self._ranges[node]
        start = self._starts[found.start.line - 1] + found.start.column
        end = self._starts[found.end.line - 1] + found.end.column
        if isinstance(node, cst.Param):  # its own range ends with the name
            parts = (node.annotation and node.annotation.annotation, node.default)
            end = max([end, *(self.span(part)[1] for part in parts if part is not None)])
        elif isinstance(node, cst.Arg):
            end = self.span(node.value)[1]
        elif isinstance(node, cst.BaseExpression):
            start -= sum(len(self.module.code_for_node(paren)) for paren in node.lpar)
            end += sum(len(self.module.code_for_node(paren)) for paren in node.rpar)
        return start, end

    def code(self, node: cst.CSTNode) -> str:
        """The text of ``node``, as it stands in the file."""
        start, end = self.span(node)
        return self.text[start:end]

    def line_start(self, offset: int) -> int:
        """Where the line that holds ``offset`` begins."""
        return max(start for start in self._starts if start <= offset)

    def indentation(self, offset: int) -> str:
        """The white space with which the line that holds ``offset`` begins."""
        match = re.compile(r"[ \t\f]*").match(self.text, self.line_start(offset))
        assert match is not None
        return match[0]

    def function(self, name: str, line: int) -> cst.FunctionDef:
        """The definition of ``name`` whose statement, decorators included, holds ``line``."""
        for node in self._defined.get(name, ()):
            if isinstance(node, cst.FunctionDef) and self._is_at(node, line):
                return node
        raise SourceError(f"{self.path}:{line}: no definition of {name} was found")

    def klass(self, name: str, line: int) -> cst.ClassDef:
        """The class ``name`` whose statement, decorators included, holds ``line``."""
        for node in self._defined.get(name, ()):
            if isinstance(node, cst.ClassDef) and self._is_at(node, line):
                return node
        raise SourceError(f"{self.path}:{line}: no class {name} was found")

    @cached_property
    def _defined(self) -> dict[str, list[cst.FunctionDef | cst.ClassDef]]:
        found: dict[str, list[cst.FunctionDef | cst.ClassDef]] = {}
        for node in walk(self.module):
            if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                found.setdefault(node.name.value, []).append(node)
        return found

    def _is_at(self, node: cst.FunctionDef | cst.ClassDef, line: int) -> bool:
        first = min([self.line(node.name), *map(self.line, node.decorators)])
        return first <= line <= self.line(node.name)

    def before(self, statement: cst.CSTNode) -> int:
        """Where the line begins above which a statement can be put, comments on it kept with it."""
        start = self.line_start(self.span(statement)[0])
        index = self._starts.index(start)
        while index and self.text[self._starts[index - 1] : start].lstrip(" \t").startswith("#"):
            index -= 1
            start = self._starts[index]
        return start

    def end_of_block(self, block: cst.BaseSuite) -> int:
        """Where the line after ``block`` begins, comments that belong to the block included."""
        start, end = self.span(block)
        indent = len(self.indentation(start))
        index = next((i for i, s in enumerate(self._starts) if s > end), None)
        if index is None:
            return len(self.text)
        after = self._starts[index]
        for begin, stop in zip(self._starts[index:], self._starts[index + 1 :], strict=False):
            line = self.text[begin:stop]
            bare = line.lstrip(" \t")
            if bare.startswith("#") and len(line) - len(bare) >= indent:
                after = stop
            elif bare.strip():
                break
        return after


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """``node`` and all below it, in source order."""
    stack = [node]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(reversed(item.children))
