"""Checks again whenever a file changes."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["watch"]

_PAUSE_SECONDS = 0.3


def watch(
    check: Callable[[], None],
    state: Callable[[], object],
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Call ``check`` at once, and again after each change of what ``state`` gives.

    What changes during a check is noticed after it. Ends with :class:`KeyboardInterrupt` only.
    """
    while True:
        before = state()
        check()
        while state() == before:
            pause(_PAUSE_SECONDS)
