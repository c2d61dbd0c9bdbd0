"""What a backend keeps per captured graph, and when it refuses to have one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from mla_runtime.errors import refusal
from mla_runtime.phase import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from mla_runtime.base import AttentionBackend

__all__ = ["CapturedGraphs"]

T = TypeVar("T")
HOOK = "init_forward_metadata_out_graph"


class CapturedGraphs(Generic[T]):
    """One value per kind of pass and batch size; an idle pass replays a decode graph."""

    def __init__(self) -> None:
        self.max_bs = 0
        self._by_key: dict[tuple[Phase, int], T] = {}

    def reserve(self, max_bs: int) -> None:
        """Allow batches of up to ``max_bs``; graphs captured before are forgotten."""
        self.max_bs = max_bs
        self._by_key.clear()

    def find(
        self,
        backend: AttentionBackend,
        phase: Phase,
        batch_size: int,
        in_capture: bool,
        make: Callable[[], T],
    ) -> T:
        """The value of a graph, made by the capture that comes first.

        Raises:
            HookRefusedError: no ``init_cuda_graph_state`` before, a replay of what was not
                captured, or a batch beyond ``max_bs``.
        """
        if not self.max_bs:
            raise refusal(
                backend, HOOK, "no graph state exists", "call init_cuda_graph_state first"
            )
        kind = Phase.DECODE if phase is Phase.IDLE else phase
        known = self._by_key.get((kind, batch_size))
        if known is not None:
            return known
        if not in_capture:
            raise refusal(
                backend,
                HOOK,
                f"no {kind.value} graph of batch size {batch_size} was captured",
                "call it with in_capture=True first",
            )
        if batch_size > self.max_bs:
            raise refusal(
                backend,
                HOOK,
                f"batch size {batch_size} exceeds max_bs={self.max_bs}",
                "pass a larger max_bs to init_cuda_graph_state",
            )
        made = self._by_key[kind, batch_size] = make()
        return made
