"""What a repair changes, and how changes of one file are put together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lint_rules.repairs.source import Source, SourceError
from mla_guard.diagnostic import Diagnostic

if TYPE_CHECKING:
    import libcst as cst

__all__ = [
    "Edit",
    "Files",
    "NoRepair",
    "Repair",
    "appended",
    "applied",
    "broken",
    "lines_of",
    "repaired",
]

Fault = TypeVar("Fault")

_WIDTH = 88
"""Columns beyond which a list of parameters or arguments is broken, as Black does by default."""


class NoRepair(Exception):
    """No mechanical repair keeps the behaviour; the message says why."""


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Characters ``start`` to ``end`` of a file become ``text``, which has ``\\n`` line ends.

    ``whole``: a definition of its own, of which several can be inserted at one place.
    """

    path: str
    start: int
    end: int
    text: str
    whole: bool = False

    def clashes(self, other: Edit) -> bool:
        """Whether the two cannot both be made: they overlap, or insert at one place."""
        if self.path != other.path:
            return False
        if self.start == other.start:
            return not (self.whole and other.whole)
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Repair:
    """The edits that make one finding go away; all of them are made, or none."""

    diagnostic: Diagnostic
    edits: tuple[Edit, ...]


class Files:
    """The files of a project, parsed when a repair asks for one.

    What was parsed of the files ``before`` an edit, and is the same, is not parsed again.
    """

    def __init__(self, data: Mapping[str, bytes], before: Files | None = None) -> None:
        self._data = data
        parsed = before._sources if before is not None else {}
        self._sources: dict[str, Source] = {
            p: source for p, source in parsed.items() if source.data == data.get(p)
        }

    def __getitem__(self, path: str) -> Source:
        """The file at ``path``; raises :class:`NoRepair` where it cannot be edited."""
        if path not in self._sources:
            try:
                source = Source(path, self._data[path])
                _ = source.module  # parses
                self._sources[path] = source
            except SourceError as error:
                raise NoRepair(str(error)) from error
        return self._sources[path]


def repaired(
    findings: Collection[Diagnostic],
    faults: Iterable[tuple[Diagnostic, Fault]],
    edits_of: Callable[[Fault], Iterable[Edit]],
) -> Iterator[Repair]:
    """A repair of each fault that is among ``findings`` and for which ``edits_of`` has one."""
    for diagnostic, fault in faults:
        if diagnostic in findings:
            try:
                edits = tuple(edits_of(fault))
            except NoRepair:
                continue
            yield Repair(diagnostic, edits)


def applied(source: Source, edits: Iterable[Edit]) -> bytes:
    """The file after the edits; raises :class:`NoRepair` where its encoding lacks a character."""
    text = source.text
    for edit in sorted(set(edits), reverse=True):
        written = edit.text.replace("\r\n", "\n").replace("\n", source.newline)
        text = text[: edit.start] + written + text[edit.end :]
    try:
        return source.encode(text)
    except UnicodeEncodeError as error:
        raise NoRepair(f"{source.path}: {error}") from error


def appended(
    source: Source, items: list[cst.Param] | list[cst.Arg], texts: list[str], *, last: bool
) -> Edit:
    """``texts`` after the last of ``items``, laid out as these are.

    ``last`` says that the list ends there, so that it may be broken into lines where it gets long.
    """
    (start, end), first = source.span(items[-1]), source.span(items[0])[0]
    before = source.text[source.span(items[-2])[1] if len(items) > 1 else start : start]
    if "\n" in before or "\r" in before:
        joint = ",\n" + source.indentation(start)
        comma = _comma(source.text, end)
        if comma is not None:
            return Edit(source.path, comma, comma, "".join(joint[1:] + t + "," for t in texts))
        return Edit(source.path, end, end, "".join(joint + text for text in texts))
    plain = Edit(source.path, end, end, "".join(", " + text for text in texts))
    line = source.line_start(first)
    rest = source.text[end:].split("\n", 1)[0].partition("#")[0].rstrip()
    width = end - line + len(plain.text) + len(rest)
    closed = source.text[end : end + 1] == ")" and source.text[first - 1 : first] == "("
    if not (last and closed and width > _WIDTH) or "\n" in source.text[first:end]:
        return plain
    outer = source.indentation(first)
    inner = outer + source.module.default_indent
    whole = [source.code(item) for item in items] + texts
    flat = inner + ", ".join(whole)
    if len(flat) > _WIDTH:
        flat = "\n".join(f"{inner}{item}," for item in whole)
    return Edit(source.path, first, end, f"\n{flat}\n{outer}")


def broken(head: str, items: Sequence[str], tail: str, indent: str, step: str) -> list[str]:
    """``head(items)tail`` in lines to be indented by ``indent``, one where it fits."""
    flat = f"{head}({', '.join(items)}){tail}"
    if len(indent + flat) <= _WIDTH:
        return [flat]
    block = [step + ", ".join(items)]
    if len(indent + block[0]) > _WIDTH:
        block = [f"{step}{item}," for item in items]
    return [f"{head}(", *block, f"){tail}"]


def _comma(text: str, end: int) -> int | None:
    """Where a comment after the comma at ``end`` ends, None where no comma or comment follows."""
    rest = text[end:].split("\n", 1)[0].rstrip("\r")
    bare = rest.lstrip(" \t")
    if not bare.startswith(",") or not bare[1:].lstrip(" \t").startswith("#"):
        return None
    return end + len(rest)


def lines_of(source: Source, edits: Iterable[Edit], edit: Edit) -> range:
    """The lines that ``edit`` takes up once all ``edits`` are made."""
    before = [other for other in set(edits) if other.path == edit.path and other < edit]
    moved = sum(o.text.count("\n") - source.text.count("\n", o.start, o.end) for o in before)
    first = source.text.count("\n", 0, edit.start) + 1 + moved
    return range(first, first + edit.text.count("\n") + 1)
