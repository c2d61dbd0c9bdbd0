"""Processes that form a ``torch.distributed`` group and run a test's cases together."""

from __future__ import annotations

import queue
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

__all__ = ["RankFailedError", "Ranks"]

_START_SECONDS = 180


class RankFailedError(AssertionError):
    """A rank raised, died, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class _Answer:
    rank: int
    value: Any = None
    failure: str | None = None


class Ranks:
    """``world`` processes that wait for cases until they are closed.

    The rendezvous is a file, so that no port can be taken. When a rank fails, or hangs in a
    collective for ``seconds``, all are killed, and the next case gets new ones.
    """

    def __init__(
        self, world: int, backend: str = "gloo", device: str = "cpu", seconds: int = 60
    ) -> None:
        """``device``: ``"cpu"``, ``"cuda"`` for one GPU that all share, or ``"cuda:rank"``.

        ``seconds``: what a case may take, compilation of its kernels included.
        """
        self.world = world
        self._backend = backend
        self._device = device
        self._seconds = seconds
        self._folder = tempfile.TemporaryDirectory()
        self._starts = 0
        self._processes: list[Any] = []
        self._cases: list[Any] = []
        self._answers: Any = None

    def run(self, case: Callable[..., Any], *args: Any) -> list[Any]:
        """``case(group, device, *args)`` on every rank, all at once; what each returned, by rank.

        Raises:
            RankFailedError: with the traceback of the first rank that failed.
        """
        if not self._processes:
            self._start()
        for cases in self._cases:
            cases.put((case, args))
        return self._collect(getattr(case, "__name__", "a case"), self._seconds)

    def close(self) -> None:
        for cases in self._cases:
            cases.put(None)
        for process in self._processes:
            process.join(10)
        self._kill()
        self._folder.cleanup()

    def _start(self) -> None:
        spawn = mp.get_context("spawn")
        self._starts += 1
        store = Path(self._folder.name, f"store{self._starts}").as_uri()
        self._answers = spawn.Queue()
        self._cases = [spawn.Queue() for _ in range(self.world)]
        common = (self.world, self._backend, self._device, store, self._seconds, self._answers)
        for rank, cases in enumerate(self._cases):
            process = spawn.Process(target=_serve, args=(rank, cases, *common), daemon=True)
            process.start()
            self._processes.append(process)
        self._collect("the start", _START_SECONDS)

    def _collect(self, what: str, seconds: int) -> list[Any]:
        values: list[Any] = [None] * self.world
        waiting = set(range(self.world))
        left = seconds
        while waiting:
            try:
                answer = self._answers.get(timeout=1)
            except queue.Empty:
                left -= 1
                dead = [rank for rank in waiting if not self._processes[rank].is_alive()]
                if dead or left <= 0:
                    state = f"died: {dead}" if dead else f"silent for {seconds} s"
                    self._kill()
                    raise RankFailedError(
                        f"{what}: ranks {sorted(waiting)} of {self.world} did not answer ({state})"
                    ) from None
                continue
            if answer.failure is not None:
                self._kill()
                raise RankFailedError(f"{what}, rank {answer.rank}:\n{answer.failure}")
            values[answer.rank] = answer.value
            waiting.discard(answer.rank)
        return values

    def _kill(self) -> None:
        """Also those that wait in a collective for a rank that will not come."""
        for process in self._processes:
            process.kill()
            process.join()
        self._processes = []
        self._cases = []


def _serve(
    rank: int,
    cases: Any,
    world: int,
    backend: str,
    device: str,
    store: str,
    seconds: int,
    answers: Any,
) -> None:
    try:
        torch.set_num_threads(1)
        where = torch.device(device.replace("rank", str(rank)))
        options: dict[str, Any] = {}
        if where.type == "cuda":
            torch.cuda.set_device(where)
        if backend == "nccl":
            options["device_id"] = where
        dist.init_process_group(
            backend,
            init_method=store,
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=seconds),
            **options,
        )
        group = dist.new_group(list(range(world)))
        answers.put(_Answer(rank))
        while (given := cases.get()) is not None:
            case, args = given
            answers.put(_Answer(rank, case(group, str(where), *args)))
        dist.destroy_process_group()
    except Exception:  # whatever it is, the test must show it
        answers.put(_Answer(rank, failure=traceback.format_exc()))
