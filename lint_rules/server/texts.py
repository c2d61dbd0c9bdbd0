"""The text around a finding, and its places as the editor counts them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol.types import Position, Range

from mla_guard.diagnostic import Place

if TYPE_CHECKING:
    from pygls.workspace import PositionCodec

__all__ = ["Texts", "split_lines"]

_WORD = re.compile(r"\w+")
_LINE_END = re.compile(r"\r\n|\r|\n")


def split_lines(text: str) -> list[str]:
    """Lines without their ends, as the protocol divides them (``str.splitlines`` has more ends)."""
    return _LINE_END.split(text)


class Texts:
    """Files by path: those that the editor holds (``held``), the others from disk."""

    def __init__(self, held: Mapping[str, str], codec: PositionCodec) -> None:
        self._held = held
        self._codec = codec
        self._lines: dict[str, list[str]] = {}

    def lines(self, path: str) -> list[str]:
        """The lines of a file; none of one that cannot be read any more."""
        found = self._lines.get(path)
        if found is None:
            found = self._lines[path] = split_lines(self._text(path))
        return found

    def _text(self, path: str) -> str:
        if path in self._held:
            return self._held[path]
        try:
            return Path(path).read_bytes().decode("utf-8-sig", "replace")
        except OSError:
            return ""

    def span(self, place: Place) -> Range:
        """The word at a place; without one, up to the end of the line."""
        lines = self.lines(place.path)
        line = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
        start = place.column - 1
        word = _WORD.match(line, start)
        return self.columns(line, place.line, start, word.end() if word else len(line))

    def columns(self, line: str, number: int, start: int, end: int) -> Range:
        """0-based columns of the 1-based line ``number`` that reads ``line``."""
        first, last = (self._codec.client_num_units(line[:column]) for column in (start, end))
        return Range(Position(number - 1, first), Position(number - 1, max(first, last)))
