"""What a check says and the exit code that it ends with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lint_rules.config import Config
    from lint_rules.output import Format
    from lint_rules.run import FileFailure, Report

__all__ = [
    "CLEAN",
    "FAILED",
    "FINDINGS",
    "UsageError",
    "refuse_nothing",
    "write_failures",
    "write_report",
    "write_unresolved",
]

CLEAN, FINDINGS, FAILED = 0, 1, 2


class UsageError(Exception):
    """What was asked cannot be done; the message is what the user reads."""


def write_report(report: Report, config: Config, form: Format, *, counts: bool = False) -> int:
    """Print a check's findings, or their counts, and return the exit code."""
    from lint_rules.output import render, summary
    from lint_rules.statistics import statistics
    from lint_rules.terminal import style_for

    here = Path.cwd()
    write_failures(report.failures)
    refuse_nothing(report, config)
    if counts:
        findings = statistics(report.diagnostics, as_json=form == "json")
    else:
        style = style_for(sys.stdout)
        findings = render(report.diagnostics, form, here, report.failures, style)
    if findings:
        print(findings)
    if form in ("text", "github"):
        print(
            ("\n" if findings else "")
            + summary(report.diagnostics, report.classes, report.files, report.held)
        )
    if report.failures:
        return FAILED
    return FINDINGS if report.diagnostics else CLEAN


def refuse_nothing(report: Report, config: Config) -> None:
    """Refuse a check that found nothing to check."""
    from lint_rules.output import shown

    if not report.roots:
        read = ", ".join(shown(str(path), Path.cwd()) for path in config.src) or "the given paths"
        raise UsageError(
            f"no base class of attention backends in {read} ({report.files} files): nothing was "
            "checked. Name it with bases = ['AttentionBackend'] under [tool.mla-guard] of "
            "pyproject.toml, or check more of the engine"
        )


def write_failures(failures: Sequence[FileFailure]) -> None:
    """Name the files that could not be checked on standard error."""
    from lint_rules.output import shown

    for failure in failures:
        place = f"{shown(failure.path, Path.cwd())}:{failure.line}"
        print(f"{place}: cannot be checked: {failure.message}", file=sys.stderr)


def write_unresolved(report: Report) -> None:
    """Name the places that no rule could judge on standard error."""
    from lint_rules.output import shown

    for entry in report.unresolved:
        path = shown(entry.place.path, Path.cwd())
        print(f"{path}:{entry.place.line}: not judged: {entry.message}", file=sys.stderr)
