"""The requests of the tiny engine: their tokens, their slots, and batches over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mla_runtime.batch import ForwardBatch
from mla_runtime.phase import ForwardMode
from mla_runtime.pool import SlotAllocator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mla_runtime.pool import ReqToTokenPool

__all__ = ["RequestTable"]


class RequestTable:
    """A fixed number of requests, each in every batch."""

    def __init__(self, req_to_token: ReqToTokenPool, size: int, page_size: int) -> None:
        """Requests for all rows of ``req_to_token`` over a pool of ``size`` slots."""
        self.req_to_token = req_to_token
        self.allocator = SlotAllocator(size, page_size)
        self.sequences: list[list[int]] = [[] for _ in range(req_to_token.size)]
        self._slots: list[list[int]] = [[] for _ in range(req_to_token.size)]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each request whose KV is kept."""
        return [len(sequence) for sequence in self.sequences]

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        """Keep these tokens of the last pass."""
        for sequence, new in zip(self.sequences, tokens, strict=True):
            sequence.extend(new)

    def reserve(self, lengths: Sequence[int]) -> None:
        """Give every request slots for so many tokens.

        Raises:
            MemoryError: the pool is full.
        """
        table = self.req_to_token.req_to_token
        for request, length in enumerate(lengths):
            slots = self.allocator.extend(self._slots[request], length)
            self._slots[request] = slots
            table[request, : len(slots)] = torch.tensor(slots, dtype=torch.int32)

    def share(self, source: int, target: int) -> None:
        """Let ``target`` begin with all that ``source`` has read, over the same pages.

        Raises:
            ValueError: the last page of ``source`` is not full, and would be written by both.
        """
        length = len(self.sequences[source])
        if length % self.allocator.page_size:
            raise ValueError(
                f"request {source} has {length} tokens; only full pages of "
                f"{self.allocator.page_size} can be shared"
            )
        self.allocator.free(self._slots[target])
        self._slots[target] = self._slots[source][:length]
        self.sequences[target] = list(self.sequences[source])

    def batch(
        self, mode: ForwardMode, before: Sequence[int], counts: Sequence[int]
    ) -> ForwardBatch:
        """A pass over ``counts`` new tokens of each request after ``before`` cached ones."""
        after = [b + c for b, c in zip(before, counts, strict=True)]
        self.reserve(after)
        loc = [
            slot
            for slots, first, last in zip(self._slots, before, after, strict=True)
            for slot in slots[first:last]
        ]
        device = self.req_to_token.req_to_token.device
        requests = list(range(len(counts)))
        if mode is ForwardMode.DECODE:
            return ForwardBatch.decode(requests, after, loc, device)
        if mode is ForwardMode.TARGET_VERIFY:
            return ForwardBatch.target_verify(requests, before, counts[0], loc, device)
        return ForwardBatch.extend(requests, before, counts, loc, device, mode)
