"""Which tokens of a sharded cache a rank holds, and in which of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["WHOLE", "KvShard"]

_Lengths = TypeVar("_Lengths", int, torch.Tensor)


@dataclass(frozen=True, slots=True)
class KvShard:
    """Rank ``rank`` of ``world``: it holds the tokens at positions ``rank, rank + world, ...``.

    Slots stay those of the whole cache, the same on every rank. A request's token at position
    ``p`` has a slot with ``slot % world == p % world``, which every allocator of pages of a
    multiple of ``world`` slots gives; its owner keeps it in row ``slot // world``. One rank is a
    shard of one, and holds everything. Layout per SGLang 0.5.23 (``kernels/ops/kvcache``).
    """

    rank: int = 0
    world: int = 1

    @classmethod
    def of(cls, group: ProcessGroup | None) -> KvShard:
        """This process's shard of a cache that ``group`` shares; of one rank without a group."""
        if group is None:
            return WHOLE
        return cls(dist.get_rank(group), dist.get_world_size(group))

    def lens(self, lens: _Lengths) -> _Lengths:
        """How many of the first ``lens`` tokens of a request are held here."""
        return lens if self.world == 1 else (lens + (self.world - 1 - self.rank)) // self.world

    def written_rows(self, slots: torch.Tensor) -> torch.Tensor:
        """Where to write tokens of any ``slots``: those of other ranks go to row 0, the sink."""
        if self.world == 1:
            return slots
        return torch.where(self.holds(slots), slots // self.world, torch.zeros_like(slots))

    def holds(self, slots: torch.Tensor) -> torch.Tensor:
        """Which slots are held here, as booleans."""
        return slots % self.world == self.rank


WHOLE = KvShard()
"""The shard of a cache that is not sharded: all of it."""
