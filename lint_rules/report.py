"""What a check gives: findings, what could not be read, and what was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mla_guard.diagnostic import Diagnostic, Place, Related

__all__ = ["FileFailure", "Report", "packed", "unpacked"]


@dataclass(frozen=True, slots=True)
class FileFailure:
    """A file that holds or uses a backend and could not be read."""

    path: str
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check.

    ``files`` counts the Python files that were read, ``classes`` those below a root, and ``roots``
    names the base classes that were found (``path:Class``). ``unresolved`` are places that no rule
    judged, for want of a base class or a constant name. ``held`` counts the findings that a
    baseline keeps back.
    """

    diagnostics: tuple[Diagnostic, ...]
    failures: tuple[FileFailure, ...] = ()
    files: int = 0
    classes: int = 0
    roots: tuple[str, ...] = ()
    unresolved: tuple[Related, ...] = ()
    held: int = 0


def packed(report: Report) -> list[Any]:
    """A report as lists, strings and numbers, which JSON holds."""
    return [
        [
            [d.code, d.severity, d.message, _place(d.place), d.symbol, _related(d.related),
             list(d.reasons), d.hint]
            for d in report.diagnostics
        ],
        [[f.path, f.line, f.message] for f in report.failures],
        report.files,
        report.classes,
        list(report.roots),
        _related(report.unresolved),
        report.held,
    ]  # fmt: skip


def unpacked(data: list[Any]) -> Report:
    """The report that ``packed`` made ``data`` of."""
    diagnostics, failures, files, classes, roots, unresolved, held = data
    return Report(
        tuple(
            Diagnostic(
                code, severity, message, Place(*place), symbol, _relateds(related),
                tuple(reasons), hint,
            )
            for code, severity, message, place, symbol, related, reasons, hint in diagnostics
        ),
        tuple(FileFailure(*failure) for failure in failures),
        files,
        classes,
        tuple(roots),
        _relateds(unresolved),
        held,
    )  # fmt: skip


def _place(place: Place) -> list[Any]:
    return [place.path, place.line, place.column]


def _related(found: tuple[Related, ...]) -> list[Any]:
    return [[_place(r.place), r.message] for r in found]


def _relateds(found: list[Any]) -> tuple[Related, ...]:
    return tuple(Related(Place(*place), message) for place, message in found)
