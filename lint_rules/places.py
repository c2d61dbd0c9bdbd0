"""Where in a file something stands: the column, found in the text when it is reported."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

from lint_rules.link import Klass, Member
from lint_rules.outline import each_logical_line
from mla_guard.diagnostic import Place, Related

__all__ = ["Places"]

_NOISE = re.compile(
    r"'{3}(?:[^\\]|\\.)*?'{3}|\"{3}(?:[^\\]|\\.)*?\"{3}|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|\#[^\n]*",
    re.DOTALL,
)


class Places:
    """Finds names in the statements of the files that were read."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self._sources = sources
        self._files: dict[str, tuple[str, list[int]]] = {}

    def _read(self, path: str) -> tuple[str, list[int]]:
        """The text of a file, and how much of it comes before each line, its ends left out."""
        found = self._files.get(path)
        if found is None:
            text = self._sources.get(path, b"").decode("utf-8-sig", "replace")
            text = text.replace("\r\n", "\n").replace("\r", "\n")
            before = itertools.accumulate(map(len, text.split("\n")), initial=0)
            found = self._files[path] = (text, list(before))
        return found

    def text(self, path: str) -> str:
        """The file as lines and columns count in it; empty for one that was not read."""
        return self._read(path)[0]

    def at(self, path: str, line: int, name: str) -> Place:
        """The first ``name`` in the statement that begins at ``line``; its start without one.

        Attributes (``.name``) and definitions come before other occurrences, and code before what
        stands in strings.
        """
        text, before = self._read(path)
        start = before[line - 1] + line - 1 if text else 0
        entry = next(each_logical_line(text, start, line), None) if text else None
        if entry is None or not name:
            return Place(path, line)
        raw = text[entry.start : entry.end]
        code = _NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), raw)
        word = re.escape(name)
        for source, pattern in (
            (code, rf"\.\s*({word})\b"),
            (code, rf"\b(?:def|class)\s+({word})\b"),
            (code, rf"\b({word})\b"),
            (raw, rf"\b({word})\b"),
        ):
            match = re.search(pattern, source)
            if match is not None:
                offset = entry.start + match.start(1)
                row = text.count("\n", entry.start, offset)
                return Place(path, entry.line + row, offset - (text.rfind("\n", 0, offset) + 1) + 1)
        return Place(path, entry.line, entry.indent + 1)

    def line(self, path: str, number: int) -> str:
        """The text of a 1-based line without its end, empty where the file has no such line."""
        lines = self._read(path)[0].split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def member(self, member: Member) -> Place:
        """The name in a member's definition."""
        return self.at(member.owner.path, member.line, member.name)

    def klass(self, klass: Klass) -> Place:
        """The name in a class statement."""
        return self.at(klass.path, klass.line, klass.name)

    def related(self, path: str, line: int, name: str, message: str) -> Related:
        return Related(self.at(path, line, name), message)
