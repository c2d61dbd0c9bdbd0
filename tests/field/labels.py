"""What a reader of both ends judged of each finding on the newest releases."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from tests.field.cases import Finding

__all__ = ["LABELS", "VERDICTS", "Label", "compare", "labels"]

LABELS = Path(__file__).with_name("labels.toml")
VERDICTS = ("true", "debatable", "false")


@dataclass(frozen=True, slots=True)
class Label:
    """A verdict on the finding of ``code`` at ``path`` and ``symbol`` that mentions ``about``."""

    path: str
    code: str
    symbol: str
    about: str
    verdict: str
    reason: str

    def fits(self, finding: Finding) -> bool:
        where = (finding["path"], finding["code"], finding["symbol"])
        return where == (self.path, self.code, self.symbol) and (
            self.about in finding["message"].replace("'", " ").replace(",", " ").split()
            or not self.about
        )


def labels(engine: str, release: str) -> list[Label]:
    """The labels of a release; a line that is none raises :class:`ValueError`."""
    tables = tomllib.loads(LABELS.read_text(encoding="utf-8"))
    found: list[Label] = []
    for key, value in tables.get(engine, {}).get(release, {}).items():
        path, code, symbol, *about = key.split(" ")
        verdict, colon, reason = value.partition(": ")
        if verdict not in VERDICTS or not colon or not reason or len(about) > 1:
            raise ValueError(f"{LABELS}: {engine} {release}: not a label: {key!r} = {value!r}")
        found.append(Label(path, code, symbol, "".join(about), verdict, reason))
    return found


def compare(
    findings: Sequence[Finding], known: Sequence[Label]
) -> tuple[list[Label], list[Finding], list[Label]]:
    """The labels of the findings, the findings without one, and the labels without a finding."""
    fitting = [[label for label in known if label.fits(finding)] for finding in findings]
    unlabelled = [f for f, found in zip(findings, fitting, strict=True) if len(found) != 1]
    used = [found[0] for found in fitting if len(found) == 1]
    stale = [label for label in known if used.count(label) != 1]
    return used, unlabelled, stale
