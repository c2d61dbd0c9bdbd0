"""How an editor turns one text into another."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from lsprotocol.types import Position, Range, TextEdit

if TYPE_CHECKING:
    from pygls.workspace import PositionCodec

__all__ = ["replaced"]

_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def replaced(before: str, after: str, codec: PositionCodec) -> list[TextEdit]:
    """The edits, of whole lines, that make ``after`` of ``before``, in the order of places."""
    old, new = _LINES.findall(before), _LINES.findall(after)

    def at(line: int) -> Position:
        """Where a line begins; after the last one, where the text ends."""
        if 0 < line == len(old) and old[-1][-1] not in "\r\n":
            return Position(line - 1, codec.client_num_units(old[-1]))
        return Position(line, 0)

    return [
        TextEdit(Range(at(first), at(last)), "".join(new[start:end]))
        for tag, first, last, start, end in SequenceMatcher(None, old, new).get_opcodes()
        if tag != "equal"
    ]
