"""``--statistics``: how often each rule found something."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from mla_guard.diagnostic import RULE_NAMES, Diagnostic

__all__ = ["statistics"]


def statistics(findings: Sequence[Diagnostic], *, as_json: bool) -> str:
    """A line for each rule that found something, the most frequent first."""
    counts = Counter(finding.code for finding in findings)
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    if as_json:
        keyed = [{"code": code, "name": RULE_NAMES[code], "count": n} for code, n in rows]
        return json.dumps(keyed, indent=2)
    width = len(str(max(counts.values(), default=0)))
    return "\n".join(f"{count:>{width}}  {code}  {RULE_NAMES[code]}" for code, count in rows)
