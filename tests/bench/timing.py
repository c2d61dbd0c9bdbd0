"""Variants of work on a GPU, timed in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

ROUNDS, TURN_MS = 7, 20.0

Step = Callable[[], object]


def nothing() -> None:
    pass


def taken_in_turns(
    variants: list[Step], prepare: list[Step] | None = None, rounds: int = ROUNDS
) -> list[float]:
    """Medians of milliseconds per call, of variants that take turns of ``TURN_MS``.

    What ``prepare`` does before a turn is not timed.
    """
    prepare = prepare or [nothing] * len(variants)

    def turn(which: int, count: int) -> float:
        prepare[which]()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            variants[which]()
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - begin) / count

    for which in range(len(variants)):
        turn(which, 2)
    counts = [max(1, int(TURN_MS / turn(which, 2))) for which in range(len(variants))]
    samples: list[list[float]] = [[] for _ in variants]
    for _ in range(rounds):
        for which, taken in enumerate(samples):
            taken.append(turn(which, counts[which]))
    return [statistics.median(taken) for taken in samples]
