"""When the tree is checked: one check at a time, and one more after what came in meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["Checking"]


class Checking:
    """Runs ``check`` when it is asked for, never twice at once."""

    def __init__(self, check: Callable[[], Awaitable[None]]) -> None:
        self._check = check
        self._wanted = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def ask(self, delay: float = 0.0) -> None:
        """Have the tree checked in ``delay`` seconds; a later request moves an earlier one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if delay:
            self._timer = asyncio.get_running_loop().call_later(delay, self._wanted.set)
        else:
            self._wanted.set()

    async def run(self) -> None:
        """Check whenever it is wanted, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._check()
