"""The paged cache of a decode-context-parallel group, of which every rank holds a share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mla_runtime.head_exchange import sum_over_all
from mla_runtime.kv_shard import KvShard
from mla_runtime.pool import MlaKvPool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.distributed import ProcessGroup

    from mla_runtime.protocols import LayerLike

__all__ = ["ShardedMlaKvPool"]


class ShardedMlaKvPool(MlaKvPool):
    """One rank's rows of a cache that ``group`` shares by token; see ``KvShard``.

    Slots, ``size`` and ``page_size`` are those of the whole cache. Every rank is told to write
    every token, and keeps its own: ``(size + page_size) / world`` rows of each layer.
    """

    def __init__(
        self,
        group: ProcessGroup,
        size: int,
        page_size: int,
        kv_lora_rank: int,
        qk_rope_head_dim: int,
        layer_num: int,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        kv_scales: Sequence[float] | None = None,
    ) -> None:
        """A zeroed pool for ``size`` tokens over all ranks.

        Raises:
            ValueError: ``page_size`` is not a multiple of the number of ranks, or as ``MlaKvPool``.
        """
        shard = KvShard.of(group)
        if page_size % shard.world:
            raise ValueError(
                f"page_size={page_size} must be a multiple of the {shard.world} ranks that share "
                f"the pages"
            )
        super().__init__(
            size // shard.world,
            page_size // shard.world,
            kv_lora_rank,
            qk_rope_head_dim,
            layer_num,
            dtype,
            device,
            kv_scales,
        )
        self.group = group
        self.shard = shard
        self.size = size
        self.page_size = page_size

    def get_mla_kv_buffer(
        self, layer: LayerLike, loc: torch.Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gather latent ``[n, 1, kv_lora_rank]`` and rope ``[n, 1, rope]``, dequantised.

        A collective: every rank must ask for the same slots. A row comes from one rank, and the
        zeros of all others leave it as it is.
        """
        rows = torch.cat(
            super().get_mla_kv_buffer(layer, self.shard.written_rows(loc), dst_dtype), dim=-1
        )
        rows.masked_fill_(~self.shard.holds(loc)[:, None, None], 0.0)
        sum_over_all(rows, self.group)
        return rows[..., : self.kv_lora_rank], rows[..., self.kv_lora_rank :]
