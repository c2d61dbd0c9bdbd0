"""How a report is written: for a person, as ``json``, or as a CI system reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from lint_rules.terminal import PLAIN, Style, styled
from mla_guard.diagnostic import REPAIRABLE, Diagnostic, Place

if TYPE_CHECKING:
    from lint_rules.run import FileFailure

__all__ = ["FORMATS", "Format", "counted", "render", "shown", "summary"]

Format = Literal["text", "concise", "json", "github", "gitlab", "junit", "sarif"]
FORMATS: tuple[Format, ...] = get_args(Format)


def render(
    findings: Sequence[Diagnostic],
    form: Format,
    base: Path,
    failures: Sequence[FileFailure] = (),
    style: Style = PLAIN,
) -> str:
    """The findings in ``form``, paths relative to ``base`` where they lie below it.

    The formats of CI systems hold the ``failures``, files that could not be checked, as well;
    ``style`` is for ``text`` and ``concise``, in which a finding stays on its line.
    """
    relative = [_relative(finding, base) for finding in findings]
    if form == "text":
        return "\n\n".join(styled(finding, style, base) for finding in relative)
    if form == "concise":
        unbroken = style._replace(width=0)
        return "\n".join(styled(f, unbroken, base).partition("\n")[0] for f in relative)
    if form == "json":
        return json.dumps([finding.as_json() for finding in relative], indent=2)
    # imported only here: an everyday check needs none of them, nor what they import
    from lint_rules.formats import github, gitlab, junit, sarif

    writers = {
        "github": github.render,
        "gitlab": gitlab.render,
        "junit": junit.render,
        "sarif": sarif.render,
    }
    return writers[form](relative, [replace(f, path=shown(f.path, base)) for f in failures])


def summary(findings: Sequence[Diagnostic], classes: int, files: int, held: int = 0) -> str:
    """The last line: how many findings, in what, and how many a baseline holds back."""
    errors = sum(finding.severity == "error" for finding in findings)
    counts = [(errors, "error"), (len(findings) - errors, "warning")]
    found = ", ".join(counted(n, noun) for n, noun in counts if n)
    verdict = f"Found {found}" if found else "No findings"
    more = f"; {held} held back by the baseline" if held else ""
    repairable = sum(finding.code in REPAIRABLE for finding in findings)
    hint = f" {repairable} may be repairable with --fix." if repairable else ""
    looked_at = f"{counted(classes, 'backend class')} ({counted(files, 'file')})"
    return f"{verdict} in {looked_at}{more}.{hint}"


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
