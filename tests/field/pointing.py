"""Whether what another tool reports points at a known fault."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from tests.field.cases import Case

__all__ = ["Pointing", "Report", "Tree", "pointing"]

Pointing = Literal["names", "stands there"]

_CLASS = re.compile(
    rb"^[ \t]*class[ \t]+(\w+)[ \t]*(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\))?[ \t]*:", re.MULTILINE
)
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_USES = {"attribute", "optional", "call"}
_HELD_AS_BASE = {"wrapper", "missing hook", "signature", "return"}


class Report(NamedTuple):
    """One line of a tool: ``path`` below the release, lines from ``line`` to ``end`` inclusive."""

    path: str
    line: int
    end: int
    check: str
    message: str


class Span(NamedTuple):
    """The lines of a definition; its header ends before line ``body``."""

    first: int
    body: int
    last: int


@dataclass
class Tree:
    """The sources of ``package`` below ``root``, as far as they are asked for."""

    root: Path
    package: str
    _lines: dict[str, list[str]] = field(default_factory=dict)
    _spans: dict[tuple[str, str], list[Span]] = field(default_factory=dict)
    _bases: dict[str, set[str]] | None = None

    def text(self, report: Report) -> str:
        """The message and the lines that it is about, of a definition its first line only."""
        lines = self.lines(report.path)
        shown = lines[report.line - 1 : max(report.line, min(report.end, report.line + 9))]
        if shown and re.match(r"\s*(async def|def|class)\b", shown[0]):
            shown = shown[:1]
        return "\n".join([report.message, *shown])

    def lines(self, path: str) -> list[str]:
        """The lines of a file."""
        if path not in self._lines:
            text = (self.root / path).read_text(encoding="utf-8", errors="replace")
            self._lines[path] = text.splitlines()
        return self._lines[path]

    def spans(self, path: str, symbol: str) -> list[Span]:
        """Where ``symbol`` (a dotted name) is defined in the file, once for each definition."""
        if (path, symbol) not in self._spans:
            module = ast.parse("\n".join(self.lines(path)))
            first, *others = symbol.split(".")
            found = _named(module, first)
            for name in others:
                found = [node for outer in found for node in _named(outer, name)]
            if not found:
                raise ValueError(f"{self.root / path} defines no {symbol}")
            self._spans[path, symbol] = [_span(node) for node in found]
        return self._spans[path, symbol]

    def names_of(self, name: str) -> set[str]:
        """The class and, as far as the release defines them, the classes that it derives from."""
        if self._bases is None:
            self._bases = {}
            for path in (self.root / self.package).rglob("*.py"):
                for match in _CLASS.finditer(path.read_bytes()):
                    listed = (match[2] or b"").decode(errors="replace")
                    bases = re.findall(r"(\w+)\s*(?=[,\[]|$)", listed)
                    self._bases.setdefault(match[1].decode(), set()).update(bases)
        found, queue = {name}, [name]
        while queue:
            for base in self._bases.get(queue.pop(), ()):
                if base not in found and base in self._bases:
                    found.add(base)
                    queue.append(base)
        return found


def pointing(case: Case, report: Report, kind: str, tree: Tree) -> Pointing | None:
    """How a report of a check of a fitting kind points at the fault, if at all.

    It *names* the fault where it stands at the head of the faulty method, or says one of the words
    in the faulty code (the line that it is about counts as said), or, as the use of an attribute
    or a call anywhere else, says one of the words and the faulty class; or a class above it, where
    the fault is what callers of any such class meet. A report that only *stands there*, in the
    faulty class or method, may be about something else.
    """
    owner, _, method = case.symbol.partition(".")
    inside = False
    if report.path == case.path and case.symbol:
        for span in tree.spans(case.path, case.symbol):
            if span.first <= report.line < span.body and method:
                return "names"
            inside |= span.first <= report.line <= span.last
    says = _says(tree.text(report), case.words)
    if inside:
        return "names" if says or not case.words else "stands there"
    if says and case.symbol and kind in _USES:
        held = tree.names_of(owner) if case.family in _HELD_AS_BASE else {owner}
        return "names" if _says(report.message, held) else None
    return "names" if says and not case.symbol and report.path == case.path else None


def _says(text: str, words: Collection[str]) -> bool:
    return any(
        word in text and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words
    )


def _named(outer: ast.AST, name: str) -> list[_Definition]:
    """The definitions of ``name``, or, where there is none, those whose names begin so."""
    below = [node for node in ast.walk(outer) if isinstance(node, _Definition)]
    exact = [node for node in below if node.name == name]
    return exact or [node for node in below if node.name.startswith(name)]


def _span(node: _Definition) -> Span:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return Span(first, max(node.body[0].lineno, node.lineno + 1), node.end_lineno or node.lineno)
