"""Faults that shipped in releases, as data, and whether a finding is about one of them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from tests.field.wheels import unpacked

__all__ = ["CASES", "NEWEST", "Case", "Finding", "cases", "package_of", "relative"]

CASES = Path(__file__).with_name("cases.toml")

NEWEST = {"sglang": "0.5.23", "vllm": "0.33.0", "tokenspeed": "0.1.1"}
"""The newest pinned release of each engine, of which every finding is labelled."""

_FAMILIES = {
    "signature": ("MLA1",),
    "duplicate": ("MLA103",),
    "return": ("MLA1",),
    "meaning": ("MLA1",),
    "initialization": ("MLA2",),
    "missing hook": ("MLA204", "MLA3"),
    "wrapper": ("MLA3",),
    "pairing": ("MLA3",),
    "registry": ("MLA3",),
}
"""How the codes of the rules begin that fit a family of faults."""

_MISSING = "not implemented by "
_REFUSING = " not taken by "

Finding = Mapping[str, Any]
"""A finding as ``mla-guard check --output-format json`` writes it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A fault: ``path`` and the beginning of the ``symbol`` where it is, ``words`` to be mentioned.

    ``family`` names the rules that fit. ``read`` is ``static``, ``partly`` (only a heuristic can
    know), ``no`` or ``commit`` (in no release). ``fixed`` is the first release without it, if any.
    """

    id: str
    engine: str
    read: str
    path: str
    family: str
    words: tuple[str, ...]
    fault: str
    release: str = ""
    symbol: str = ""
    fixed: str = ""

    def is_shown_by(self, finding: Finding) -> bool:
        """Whether a finding of a fitting rule names the fault: where it is, or at a caller.

        A finding at a caller must count the class among those that do not implement the hook, or
        the method among those that do not take what it passes.
        """
        if not str(finding["code"]).startswith(_FAMILIES[self.family]):
            return False
        reasons: list[str] = finding["reasons"]
        text = " ".join([finding["message"], *reasons, *(r["message"] for r in finding["related"])])
        if not all(word in text for word in self.words):
            return False
        symbol = str(finding["symbol"]).removeprefix("<locals>.")
        if finding["path"] == self.path and symbol.startswith(self.symbol):
            return True
        return any(map(self._counts, reasons))

    def _counts(self, reason: str) -> bool:
        """Whether a reason counts the class among those that fall short in what the words name."""
        if reason.startswith(_MISSING):
            return self.symbol in reason.removeprefix(_MISSING).split(", ")
        keywords, _, methods = reason.partition(_REFUSING)
        return self.symbol in methods.split(", ") and all(w in keywords for w in self.words)

    def codes(self, findings: Iterable[Finding]) -> list[str]:
        """The codes of the findings that show the fault."""
        return sorted({str(f["code"]) for f in findings if self.is_shown_by(f)})

    @property
    def after(self) -> str:
        """The release to look at besides: the fixed one, or the newest where it is open."""
        return self.fixed or NEWEST[self.engine]


def cases() -> list[Case]:
    """Every fault in ``cases.toml``."""
    tables = tomllib.loads(CASES.read_text(encoding="utf-8"))["case"]
    return [Case(**{**table, "words": tuple(table["words"])}) for table in tables]


def package_of(engine: str, release: str) -> Path:
    """The engine's package in its unpacked release, what is checked."""
    return unpacked(engine, release) / engine


def relative(finding: Finding, sources: Path) -> Finding:
    """The finding with paths as the release has them."""
    prefix = f"{sources.parent}/"
    return {
        **finding,
        "path": finding["path"].removeprefix(prefix),
        "related": [{**r, "path": r["path"].removeprefix(prefix)} for r in finding["related"]],
    }
