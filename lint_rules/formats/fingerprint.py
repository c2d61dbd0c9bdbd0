"""What makes a finding the same one in the next run: its path, code and symbol, never its line."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from mla_guard.diagnostic import Diagnostic

__all__ = ["fingerprints"]


def fingerprints(findings: Sequence[Diagnostic]) -> list[str]:
    """64 hexadecimal digits for each of ``findings``, no two alike.

    Findings that share path, code and symbol are counted in the order given, as consumers show only
    one of those with the same fingerprint.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    digests: list[str] = []
    for finding in findings:
        key = (finding.place.path, finding.code, finding.symbol)
        seen[key] += 1
        text = "\0".join((*key, str(seen[key])))
        digests.append(hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest())
    return digests
