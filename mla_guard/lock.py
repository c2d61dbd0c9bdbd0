"""One lock for all of the guard's book-keeping, safe against ``fork`` and garbage collection."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["locked", "when_free"]

_LOCK = threading.RLock()
_DEPTH = 0
_WAITING: deque[Callable[[], None]] = deque()


@contextmanager
def locked() -> Iterator[None]:
    """Hold the lock; the thread that holds it may take it again."""
    global _DEPTH
    with _LOCK:
        _DEPTH += 1
        try:
            yield
        finally:
            try:
                while _DEPTH == 1 and _WAITING:
                    _WAITING.popleft()()
            finally:
                _DEPTH -= 1


def when_free(work: Callable[[], None]) -> None:
    """Do ``work`` under the lock: now where it is free, else when its holder lets go.

    For callbacks of the garbage collector, which can come at any moment, also in the midst of the
    guard's own work, and must not wait.
    """
    _WAITING.append(work)
    if _LOCK.acquire(blocking=False):
        try:
            if _DEPTH == 0:
                with locked():
                    pass
        finally:
            _LOCK.release()


def _after_fork() -> None:
    """The thread that may have held the lock does not exist in the child."""
    global _LOCK, _DEPTH
    _LOCK, _DEPTH = threading.RLock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
