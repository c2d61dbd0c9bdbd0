"""Faults outside of the known ones that each rule finds, verified in the releases that have them.

    python -m tests.field.outside

Prints them per rule, with the rules of which none is known, and exits with 1 where one is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from lint_rules.config import Config
from lint_rules.run import check
from mla_guard.diagnostic import LINT_RULES
from tests.field.cases import Finding, relative
from tests.field.wheels import unpacked

__all__ = ["OUTSIDE", "Fault", "faults", "main", "print_outside"]

OUTSIDE = Path(__file__).with_name("outside.toml")

Known = Mapping[tuple[str, str], Sequence[Finding]]
"""The findings of releases that were checked before."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A true finding of ``code`` at ``path`` and ``symbol``, whose words mention ``about``.

    ``host`` maps the package that a plugin extends to its release, ``bases`` are the roots that the
    check is told, ``package`` is the folder to check where it is not the engine's name.
    """

    code: str
    engine: str
    release: str
    path: str
    symbol: str
    about: str
    why: str
    package: str = ""
    bases: tuple[str, ...] = ()
    host: dict[str, str] = field(default_factory=dict)

    def is_shown_by(self, finding: Finding) -> bool:
        """Whether a finding is this one."""
        where = (finding["code"], finding["path"], finding["symbol"])
        words = " ".join([finding["message"], *finding["reasons"]])
        return where == (self.code, self.path, self.symbol) and self.about in words

    def lines(self, known: Known) -> list[int]:
        """Where the release has it; nowhere, if it is missed."""
        found = () if self.bases or self.host else known.get((self.engine, self.release), ())
        if not found:
            own = unpacked(self.engine, self.release) / (self.package or self.engine)
            hosts = [unpacked(name, release) / name for name, release in self.host.items()]
            found = _checked(own, tuple(hosts), self.bases)
        return [int(f["line"]) for f in found if self.is_shown_by(f)]


def faults() -> list[Fault]:
    """Every fault in ``outside.toml``."""
    tables = tomllib.loads(OUTSIDE.read_text(encoding="utf-8"))["fault"]
    return [Fault(**{**table, "bases": tuple(table.get("bases", ()))}) for table in tables]


@lru_cache(maxsize=1)
def _checked(own: Path, hosts: tuple[Path, ...], bases: tuple[str, ...]) -> tuple[Finding, ...]:
    report = check([own], Config(src=(own, *hosts), root=own.parent, bases=bases))
    return tuple(relative(diagnostic.as_json(), own) for diagnostic in report.diagnostics)


def print_outside(chosen: Sequence[Fault], known: Known) -> bool:
    """Print the faults of each rule; whether one is missed."""
    ordered = sorted(chosen, key=lambda f: (f.engine, f.release, f.bases))
    lines = {id(fault): fault.lines(known) for fault in ordered}
    found = sum(map(bool, lines.values()))
    print(f"\nfaults that no row names: {found} of {len(chosen)} found")
    for code in LINT_RULES:
        mine = [fault for fault in chosen if fault.code == code]
        if not mine and code > "MLA1":
            print(f"  {code} none known")
        for fault in mine:
            at = lines[id(fault)]
            where = f"{fault.path}:{at[0]}" if at else f"{fault.path}: MISSED"
            print(f"  {code} {fault.engine} {fault.release} {where} {fault.symbol}: {fault.why}")
    return found < len(chosen)


def main() -> int:
    """Verify every fault; returns the exit code."""
    return 1 if print_outside(faults(), {}) else 0


if __name__ == "__main__":
    sys.exit(main())
