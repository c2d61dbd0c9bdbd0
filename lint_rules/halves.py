"""Two processors at one list of computations, where processes can be forked."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any, TypeVar

__all__ = ["can_halve", "from_both_ends"]

A = TypeVar("A")


def can_halve() -> bool:
    """Whether a second process can start from what this one holds in memory."""
    return (os.cpu_count() or 1) > 1 and "fork" in multiprocessing.get_all_start_methods()


def from_both_ends(tasks: Sequence[Callable[[], A]]) -> list[A]:
    """What ``tasks`` give, in their order.

    This process works them off from the first on, and one forked from it from the last back, until
    they meet: what shares much is to stand together. The results of the other one are pickled.
    Raises :class:`RuntimeError` where it ends without them.
    """
    context: Any = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    left, filled = os.pipe()
    os.write(filled, bytes(len(tasks)))  # a byte stands for a task: who reads it does the next one
    os.close(filled)
    process = context.Process(target=_send, args=(tasks, left, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        mine = _work_off(tasks, left)
        return [*mine, *reversed(ours.recv())]
    except EOFError as error:
        raise RuntimeError("a process that judges has ended early") from error
    finally:
        os.close(left)
        ours.close()
        process.join()


def _work_off(tasks: Iterable[Callable[[], A]], left: int) -> list[A]:
    found: list[A] = []
    for task in tasks:
        if not os.read(left, 1):
            break
        found.append(task())
    return found


def _send(tasks: Sequence[Callable[[], object]], left: int, pipe: Connection[Any, Any]) -> None:
    pipe.send(_work_off(reversed(tasks), left))
