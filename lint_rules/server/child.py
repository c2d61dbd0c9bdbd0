"""The worker process as the server sees it: started when needed, one request at a time."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import lint_rules
from lint_rules.server.wire import (
    AskRepairs,
    Checked,
    CheckTree,
    Described,
    DescribeHook,
    MakeRepairs,
    Repairable,
    Repaired,
    Request,
    receive,
    send,
)

__all__ = ["Child", "ChildDied"]

_PACKAGES = Path(lint_rules.__file__).parents[1]
Answer = TypeVar("Answer", Checked, Described, Repairable, Repaired)


class ChildDied(Exception):
    """The worker process ended instead of answering; its traceback stands on standard error."""

    def __init__(self, returncode: int) -> None:
        super().__init__(f"the check ended with exit code {returncode}")


class Child:
    """The worker process. One that died is replaced at the next request."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        # a request that the editor cancels is answered all the same: the next one waits its turn
        self._turns = ThreadPoolExecutor(1, "worker")

    async def check(self, request: CheckTree) -> Checked:
        """Raises :class:`ChildDied`."""
        return await self._ask(request, Checked)

    async def describe(self, request: DescribeHook) -> Described:
        """Raises :class:`ChildDied`."""
        return await self._ask(request, Described)

    async def repairable(self, request: AskRepairs) -> Repairable:
        """Raises :class:`ChildDied`."""
        return await self._ask(request, Repairable)

    async def repair(self, request: MakeRepairs) -> Repaired:
        """Raises :class:`ChildDied`."""
        return await self._ask(request, Repaired)

    async def _ask(self, request: Request, kind: type[Answer]) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._turns, self._talk, request, kind)

    def _talk(self, request: Request, kind: type[Answer]) -> Answer:
        process = self._process = self._process or _start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send(process.stdin, request)
            answer = receive(process.stdout)
        except (BrokenPipeError, EOFError) as error:
            raise ChildDied(self._end()) from error
        assert isinstance(answer, kind)
        return answer

    def close(self) -> None:
        """Have the worker end once it has done what it does; nothing can be asked any more."""
        self._turns.submit(self._end)
        self._turns.shutdown(wait=False)

    def _end(self) -> int:
        """The exit code of a worker that nothing more is asked of; 0 where none was started."""
        process, self._process = self._process, None
        if process is None:
            return 0
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # the last request was not read to its end
                pipe.close()
        return process.wait()


def _start() -> subprocess.Popen[bytes]:
    # started beside the packages: nothing in the project can be imported in their place
    command = [sys.executable, "-m", "lint_rules.server.worker"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_PACKAGES)
