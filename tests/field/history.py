"""When each finding first and last appeared over a series of pinned releases.

    python -m tests.field.history sglang 0.5.9 0.5.23 [--case S001 ...]

Checks every pinned release between the two as a whole. A finding is the same from one release to
the next where path, code, symbol and the first words of its message are. With ``--case`` only the
findings of those known faults are printed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from lint_rules.config import Config
from lint_rules.run import check
from tests.field.cases import Finding, cases, package_of, relative
from tests.field.wheels import pins

__all__ = ["history", "main", "subject"]


def main(argv: Sequence[str] | None = None) -> int:
    """Print one line a finding: first and last release, count, code, symbol, path."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("engine")
    parser.add_argument("first")
    parser.add_argument("last")
    parser.add_argument("--case", nargs="+", help="known faults to follow, e.g. S001")
    arguments = parser.parse_args(argv)
    known = list(pins()[arguments.engine])
    for release in (arguments.first, arguments.last):
        if release not in known:
            parser.error(f"{release!r} is not pinned (known: {', '.join(known)})")
    releases = known[known.index(arguments.first) : known.index(arguments.last) + 1]
    found = history(arguments.engine, releases)
    chosen = [case for case in cases() if arguments.case and case.id in arguments.case]
    for (path, code, _, about), seen in sorted(found.items()):
        ids = [c.id for c in chosen if any(c.is_shown_by(f) for f in seen.values())]
        if ids or not arguments.case:
            first, last = next(iter(seen)), list(seen)[-1]
            mark = f"{' '.join(ids)} " if ids else ""
            span = f"{first} to {last}, {len(seen)} of {len(releases)}"
            print(f"{mark}{span}: {code} {about} ({path})")
    return 0


def subject(message: str) -> str:
    """What is wrong and of what: the first words of a finding, without arguments and counts.

    These change from one release to the next while the finding stays.
    """
    told = re.split(r",(?! but)|[:;]", re.sub(r"\([^()]*\)", "()", message), maxsplit=1)[0]
    return re.sub(r" in \d+\b", " in some", told)


def history(
    engine: str, releases: Sequence[str]
) -> dict[tuple[str, str, str, str], dict[str, Finding]]:
    """Path, code, symbol and subject of each finding to the releases that have it, in order."""
    found: dict[tuple[str, str, str, str], dict[str, Finding]] = {}
    for release in releases:
        print(f"checking {engine} {release}", file=sys.stderr)
        sources = package_of(engine, release)
        report = check([sources], Config(src=(sources,), root=sources))
        for diagnostic in report.diagnostics:
            finding = relative(diagnostic.as_json(), sources)
            key = (
                finding["path"], diagnostic.code, diagnostic.symbol, subject(diagnostic.message)
            )  # fmt: skip
            found.setdefault(key, {})[release] = finding
    return found


if __name__ == "__main__":
    sys.exit(main())
