"""``check`` against a baseline, and its ``--write-baseline``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lint_rules.baseline import hold, new_text, read_baseline, write_text
from lint_rules.config import Config
from lint_rules.report import Report
from lint_rules.target import inside

__all__ = ["check_against"]


def check_against(
    baseline: Path,
    check: Callable[[Config], Report],
    targets: Sequence[Path],
    config: Config,
    *,
    write: bool,
) -> Report:
    """What ``check`` finds in ``targets`` and ``baseline`` does not hold.

    With ``write``, a baseline that does not exist is made to hold everything, and one that exists
    loses its stale lines; unless a file could not be checked, when nothing is known to be stale.
    Raises :class:`ConfigError` for a file that cannot be read or written.
    """
    new = write and not os.path.lexists(baseline)
    known = None if new else read_baseline(baseline)
    # Lines hold warnings too, whatever is shown: else one would be stale today and needed tomorrow.
    report = check(replace(config, min_severity="warning"))
    whole = bool(report.roots) and not report.failures

    def judged(path: Path, code: str) -> bool:
        place = Path(os.path.abspath(path))
        return whole and config.selects(code) and any(inside(place, t) for t in targets)

    if write and not whole:
        _say(f"{baseline}: not written, as not everything was checked")
    if known is None:
        if not whole:
            return _shown(report, config)
        text, count = new_text(report.diagnostics, baseline)
        write_text(baseline, text)
        _say(f"{baseline}: {_lines(count)} written")
        known = read_baseline(baseline)
    held = hold(report.diagnostics, known, judged)
    if write and held.stale:
        write_text(baseline, known.without(held.stale))
        _say(f"{baseline}: {_lines(len(held.stale))} of {len(known.entries)} taken away")
        held = hold(report.diagnostics, read_baseline(baseline), judged)
    shown = replace(report, diagnostics=tuple(held.reported), held=len(held.kept))
    return _shown(shown, config)


def _shown(report: Report, config: Config) -> Report:
    shown = (f for f in report.diagnostics if config.selects(f.code) and config.shows(f.severity))
    return replace(report, diagnostics=tuple(shown))


def _lines(count: int) -> str:
    return f"{count} line" if count == 1 else f"{count} lines"


def _say(message: str) -> None:
    print(f"mla-guard: {message}", file=sys.stderr)
