"""One finding, said one way: the linter prints it and the guard raises it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["LINT_RULES", "REPAIRABLE", "RULE_NAMES", "Diagnostic", "Place", "Related", "Severity"]

Severity = Literal["error", "warning"]

RULE_NAMES: dict[str, str] = {
    "MLA001": "unused-ignore",
    "MLA002": "invalid-ignore",
    "MLA003": "stale-baseline",
    "MLA101": "hook-signature-drift",
    "MLA102": "hook-call-mismatch",
    "MLA103": "duplicate-hook",
    "MLA104": "sibling-call-mismatch",
    "MLA105": "return-arity-drift",
    "MLA201": "skipped-parent-init",
    "MLA202": "unguarded-attribute",
    "MLA203": "partial-parent-init",
    "MLA204": "borrowed-method",
    "MLA205": "unset-in-some-mode",
    "MLA206": "uneven-branches",
    "MLA207": "never-stored-attribute",
    "MLA301": "unexposed-wrapper-hook",
    "MLA302": "unexposed-wrapper-attribute",
    "MLA303": "over-promising-delegation",
    "MLA304": "wrapper-route-drift",
    "MLA305": "unimplemented-hook",
    "MLA306": "removed-hook",
    "MLA307": "stand-in-gap",
    "MLA308": "unpaired-hook",
    "MLA309": "unread-fallback",
    "MLA401": "missing-required-hook",
    "MLA402": "unmet-assumption",
    "MLA403": "hook-out-of-order",
    "MLA404": "broken-postcondition",
}
"""Every code that a finding or a refusal can carry, with its name."""

LINT_RULES: dict[str, str] = {c: name for c, name in RULE_NAMES.items() if c < "MLA4"}
"""Those that the linter can report; from MLA401 on only the guard knows, at run time."""

REPAIRABLE = frozenset({"MLA101", "MLA201", "MLA202", "MLA301", "MLA302", "MLA303"})
"""The rules that have a repair, which does not say that each of their findings has one."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something stands: ``path``, 1-based ``line`` and 1-based ``column``."""

    path: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Related:
    """The other end of a breach: a place and what stands there."""

    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A breach of a hook's contract.

    ``severity`` is ``"error"`` where a call, probe or construction in the tree reaches the breach
    and ``"warning"`` where it is latent; ``hint`` or a reason then says what would trigger it.
    ``symbol`` is the dotted name inside the file (``Class.method``), stable under line shifts.
    """

    code: str
    severity: Severity
    message: str
    place: Place
    symbol: str
    related: tuple[Related, ...] = ()
    reasons: tuple[str, ...] = ()
    hint: str = ""
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", RULE_NAMES[self.code])

    def headline(self) -> str:
        """The first line: complete alone, ``path:line:col: CODE message [rule-name]``."""
        return f"{self.place}: {self.code} {self.message} [{self.name}]"

    def text(self) -> str:
        """The headline, the other ends, the reasons and the hint, a line each."""
        lines = [self.headline() if self.severity == "error" else f"{self.headline()} (warning)"]
        lines += [f"  {r.place}: {r.message}" for r in self.related]
        lines += [f"  - {reason}" for reason in self.reasons]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """A JSON-ready mapping; the keys are part of the public interface."""
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity,
            "message": self.message,
            "path": self.place.path,
            "line": self.place.line,
            "column": self.place.column,
            "symbol": self.symbol,
            "related": [
                {"path": r.place.path, "line": r.place.line, "message": r.message}
                for r in self.related
            ],
            "reasons": list(self.reasons),
            "hint": self.hint,
        }
