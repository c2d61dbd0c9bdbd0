"""The paged cache of a decode-context-parallel group, of which every rank holds a share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mla_runtime.head_exchange import sum_over_all
from mla_runtime.kv_shard import KvShard

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from mla_runtime.pool import MlaKvPool
    from mla_runtime.protocols import LayerLike

__all__ = ["ShardedMlaKvPool"]


class ShardedMlaKvPool:
    """``world`` times the tokens of ``local``, this rank's own rows.

    Slots, ``size`` and ``page_size`` are those of the whole cache: ``world`` times those of
    ``local``. Every rank is told to write every token and keeps its own; see ``KvShard``.
    """

    def __init__(self, local: MlaKvPool, group: ProcessGroup) -> None:
        """The cache of ``group``; every rank brings a ``local`` pool of the same size."""
        self.local = local
        self.group = group
        self.shard = KvShard.of(group)
        self.size = local.size * self.shard.world
        self.page_size = local.page_size * self.shard.world
        self.dtype = local.dtype

    def kv_scale(self, layer_id: int) -> float:
        """What a stored value of this layer is to be multiplied by."""
        return self.local.kv_scale(layer_id)

    def set_kv_buffer(
        self, layer: LayerLike, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        """Write those of the combined rows ``cache_k[n, 1, kv_lora_rank + rope]`` held here."""
        self.local.set_kv_buffer(layer, loc, cache_k, cache_v, self.shard)

    def set_mla_kv_buffer(
        self,
        layer: LayerLike,
        loc: torch.Tensor,
        cache_k_nope: torch.Tensor,
        cache_k_rope: torch.Tensor,
    ) -> None:
        """Write those of the latent and rope rows that are held here."""
        self.local.set_mla_kv_buffer(layer, loc, cache_k_nope, cache_k_rope, self.shard)

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        """The rows held here, as stored."""
        return self.local.get_key_buffer(layer_id)

    def get_mla_kv_buffer(
        self, layer: LayerLike, loc: torch.Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Latent ``[n, 1, kv_lora_rank]`` and rope ``[n, 1, rope]`` rows of any slots, dequantised.

        A collective: every rank must ask for the same slots. Every row comes from one rank, and
        the zeros of all others leave it as it is.
        """
        rows = torch.cat(
            self.local.get_mla_kv_buffer(layer, self.shard.written_rows(loc), dst_dtype), dim=-1
        )
        rows.masked_fill_(~self.shard.holds(loc)[:, None, None], 0.0)
        sum_over_all(rows, self.group)
        rank = self.local.kv_lora_rank
        return rows[..., :rank], rows[..., rank:]
