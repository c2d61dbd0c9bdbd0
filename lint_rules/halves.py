"""Two halves of one computation on two processors, where processes can be forked."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

__all__ = ["both", "can_halve"]

A = TypeVar("A")
B = TypeVar("B")


def can_halve() -> bool:
    """Whether a second process can start from what this one holds in memory."""
    return (os.cpu_count() or 1) > 1 and "fork" in multiprocessing.get_all_start_methods()


def both(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """What two functions give; ``second`` runs in a process forked from this one.

    Its result is pickled. Raises :class:`RuntimeError` where that process ends without one.
    """
    context: Any = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(second, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        mine = first()
        return mine, ours.recv()
    except EOFError as error:
        raise RuntimeError("a process that judges has ended early") from error
    finally:
        ours.close()
        process.join()


def _send(function: Callable[[], object], pipe: Connection[Any, Any]) -> None:
    pipe.send(function())
