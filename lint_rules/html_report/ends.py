"""The code at both ends of a finding, and how the signatures there differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from lint_rules.judge import Judge
from lint_rules.link import Member, shape
from mla_guard.diagnostic import Diagnostic, Place
from mla_guard.drift import Shape, format_shape

__all__ = ["Ends", "Excerpt", "Json", "difference"]

Json = dict[str, object]

Excerpt = tuple[int, list[str]]
"""Code: the number of its first line, and the lines."""

BEFORE, AFTER = 4, 9
"""Lines of code that are shown around a place."""


class Ends:
    """What stands at the ends of a project's findings.

    ``excerpts`` collects the code, each part once.
    """

    def __init__(self, judge: Judge, excerpts: list[Excerpt]) -> None:
        self._judge = judge
        self._excerpts = excerpts
        self._known: dict[tuple[str, int], int] = {}
        self._definitions: dict[str, dict[int, Member]] = {}

    def excerpt(self, path: str, line: int) -> int:
        """The number in ``excerpts`` of the code around ``line``."""
        found = self._known.get((path, line))
        if found is None:
            lines = self._judge.places.text(path).split("\n")
            first = max(line - BEFORE, 1)
            self._excerpts.append((first, lines[first - 1 : line + AFTER]))
            found = self._known[path, line] = len(self._excerpts) - 1
        return found

    def width(self, place: Place) -> int:
        """How many characters the name at ``place`` has; 0 where there is none."""
        lines = self._judge.places.text(place.path).split("\n")
        rest = lines[place.line - 1][place.column - 1 :] if place.line <= len(lines) else ""
        match = re.match(r"\w+", rest)
        return len(match[0]) if match else 0

    def end(self, place: Place, message: str, relative: str) -> Json:
        """One end as the page shows it; its path is ``relative``."""
        return {
            "path": relative,
            "line": place.line,
            "column": place.column,
            "width": self.width(place),
            "message": message,
            "excerpt": self.excerpt(place.path, place.line),
        }

    def _definition(self, place: Place) -> Member | None:
        """The method whose name stands at ``place``."""
        found = self._definitions.get(place.path)
        if found is None:
            found = self._definitions[place.path] = {
                self._judge.places.member(member).line: member
                for klass in self._judge.project.classes
                if klass.path == place.path
                for member in klass.own.values()
                if member.function is not None and member.attr is None
            }
        return found.get(place.line)

    def promise(self, finding: Diagnostic) -> tuple[Member, Member] | None:
        """The two definitions of one name at the ends of a finding whose parameters differ.

        First what was promised, then what the finding is about.
        """
        mine = self._definition(finding.place)
        for related in finding.related:
            theirs = self._definition(related.place)
            if mine is not None and theirs is not None and mine.name == theirs.name:
                assert mine.function is not None
                assert theirs.function is not None
                if shape(mine.function) != shape(theirs.function):
                    return theirs, mine
        return None


def difference(promised: Shape, mine: Shape) -> Iterator[tuple[str, str]]:
    """The parameters of two signatures in order: ``same``, ``promised`` or ``mine`` only."""
    before, after = _parameters(promised), _parameters(mine)
    for what, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if what == "equal":
            yield from (("same", text) for text in before[a:b])
        else:
            yield from (("promised", text) for text in before[a:b])
            yield from (("mine", text) for text in after[c:d])


def _parameters(shape: Shape) -> list[str]:
    # every default is written as "...", so that a comma stands between parameters only
    inside = format_shape(shape)[1:-1]
    return inside.split(", ") if inside else []
