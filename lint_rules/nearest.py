"""What somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["nearest"]


def nearest(written: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``written`` is closest to, None where none is close.

    Case does not count, nor does ``_`` for ``-``.
    """
    by_folded = {name.casefold(): name for name in known}
    folded = written.casefold().replace("_", "-")
    close = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.7)
    return by_folded[close[0]] if close else None
