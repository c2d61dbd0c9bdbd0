"""Readers in processes of their own, for what one processor would be long about."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from lint_rules.reader import Reader

__all__ = ["Crew", "worth_a_crew"]

_MOST = 8
_WORTH_BYTES = 2_000_000


def worth_a_crew(size: int) -> bool:
    """Whether reading ``size`` bytes of source pays for the start of processes."""
    return size > _WORTH_BYTES and (os.cpu_count() or 1) > 1


class Crew:
    """As many readers as there are processors, or ``most``; its processes end when it is closed."""

    def __init__(self, most: int) -> None:
        methods = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
        self._pipes: list[Connection[Any, Any]] = []
        self._processes: list[Any] = []
        for _ in range(min(os.cpu_count() or 1, most, _MOST)):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(theirs, [*self._pipes, ours]), daemon=True
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.kill()  # all that was asked for is there; it may still be starting
            process.join()

    def __len__(self) -> int:
        return len(self._pipes)

    def each(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        """What ``method`` gives on each reader, called with an argument of its own."""
        for pipe, argument in zip(self._pipes, arguments, strict=True):
            pipe.send((method, argument))
        return [_result(pipe) for pipe in self._pipes]

    def deal(
        self, method: str, arguments: Iterable[Any], meanwhile: Callable[[], None]
    ) -> Iterator[Any]:
        """What ``method`` gives for each argument, in the order in which the readers get there.

        ``meanwhile`` is called while they are at the first ones.
        """
        left = iter(arguments)
        busy: list[Connection[Any, Any]] = []
        for pipe, argument in zip(self._pipes, left, strict=False):
            pipe.send((method, argument))
            busy.append(pipe)
        meanwhile()
        while busy:
            ready = wait(busy)
            for pipe in [pipe for pipe in busy if pipe in ready]:
                yield _result(pipe)
                busy.remove(pipe)
                for argument in left:
                    pipe.send((method, argument))
                    busy.append(pipe)
                    break


def _result(pipe: Connection[Any, Any]) -> Any:
    try:
        return pipe.recv()
    except (EOFError, ConnectionResetError) as error:
        raise RuntimeError("a process that reads sources has ended early") from error


def _work(pipe: Connection[Any, Any], others: Sequence[Connection[Any, Any]]) -> None:
    for other in others:  # inherited over the fork: a crew ends when its own end is closed
        other.close()
    # a syntax tree holds no cycles; collecting while one is built costs a tenth of the parse
    gc.disable()
    import lint_rules.extract  # noqa: F401 - while there is nothing to do yet

    reader = Reader()
    with suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        while True:
            method, argument = pipe.recv()
            pipe.send(getattr(reader, method)(argument))
