"""How a report is written: ``text``, ``concise`` or ``json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from mla_guard.diagnostic import REPAIRABLE, Diagnostic, Place

__all__ = ["FORMATS", "Format", "counted", "render", "shown", "summary"]

Format = Literal["text", "concise", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)


def render(findings: Sequence[Diagnostic], form: Format, base: Path) -> str:
    """The findings in ``form``, paths relative to ``base`` where they lie below it."""
    relative = [_relative(finding, base) for finding in findings]
    if form == "json":
        return json.dumps([finding.as_json() for finding in relative], indent=2)
    if form == "concise":
        return "\n".join(finding.text().partition("\n")[0] for finding in relative)
    return "\n\n".join(finding.text() for finding in relative)


def summary(findings: Sequence[Diagnostic], classes: int, files: int) -> str:
    """The last line: how many findings, and in what."""
    errors = sum(finding.severity == "error" for finding in findings)
    counts = [(errors, "error"), (len(findings) - errors, "warning")]
    found = ", ".join(counted(n, noun) for n, noun in counts if n)
    verdict = f"Found {found}" if found else "No findings"
    repairable = sum(finding.code in REPAIRABLE for finding in findings)
    hint = f" {repairable} may be repairable with --fix." if repairable else ""
    return f"{verdict} in {counted(classes, 'backend class')} ({counted(files, 'file')}).{hint}"


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2 files``, ``3 classes``."""
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number} {noun if number == 1 else plural}"


def shown(path: str, base: Path) -> str:
    """``path`` as a person wants to read it: relative to ``base`` where it lies below it."""
    try:
        return Path(path).relative_to(base).as_posix()
    except ValueError:
        return path


def _relative(finding: Diagnostic, base: Path) -> Diagnostic:
    def moved(place: Place) -> Place:
        return replace(place, path=shown(place.path, base))

    return replace(
        finding,
        place=moved(finding.place),
        related=tuple(replace(r, place=moved(r.place)) for r in finding.related),
    )
