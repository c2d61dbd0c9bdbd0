"""Decode context parallel: whose cache it is, and what a layer does beside its one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mla_runtime.fp8 import stored_rows
from mla_runtime.kernels.checks import one_scale
from mla_runtime.kv_shard import KvShard
from mla_runtime.layer_inputs import latent_query, pass_rows, pool_scale
from mla_runtime.settings import attention_tp_size

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from mla_runtime.head_exchange import GatheredHeads, HeadExchange
    from mla_runtime.kernels.partial_states import State
    from mla_runtime.kernels.protocol import PagedMla
    from mla_runtime.protocols import KvPoolLike, LayerLike, ModelRunnerLike
    from mla_runtime.settings import MlaShape

__all__ = ["dcp_group_of", "gather_heads", "own_state"]


def dcp_group_of(runner: ModelRunnerLike) -> ProcessGroup | None:
    """The group over whose ranks a runner's cache is sharded; None for a whole cache.

    ``runner.dcp_group`` is a ``torch.distributed`` group of tensor-parallel neighbours, or an
    engine's coordinator that has one as ``device_group`` (vLLM, SGLang). A group of one is none.

    Raises:
        ValueError: this process is not in the group, the attention's heads are not split over its
            ranks, or the runner's pool is sharded in another way.
    """
    given = getattr(runner, "dcp_group", None)
    group: ProcessGroup | None = getattr(given, "device_group", given)
    shard = KvShard.of(group)
    if shard.rank < 0:
        raise ValueError("dcp_group does not contain this process")
    tp_size = attention_tp_size(runner)
    if tp_size % shard.world:
        raise ValueError(
            f"dcp_group has {shard.world} ranks and the attention's tensor-parallel size is "
            f"{tp_size}; the ranks that share a cache must be ranks that split the heads, expected "
            f"a multiple of {shard.world}"
        )
    held = getattr(runner.token_to_kv_pool, "shard", None)
    if held is not None and held != shard:
        raise ValueError(
            f"token_to_kv_pool is rank {held.rank} of {held.world} of a sharded cache, dcp_group "
            f"makes this process rank {shard.rank} of {shard.world}"
        )
    return group if shard.world > 1 else None


def gather_heads(
    exchange: HeadExchange | None,
    q: torch.Tensor,
    q_rope: torch.Tensor | None,
    layer: LayerLike,
    shape: MlaShape,
) -> GatheredHeads | None:
    """The absorbed queries of all ranks, on their way; None where the cache is whole."""
    if exchange is None or q.shape[0] == 0:
        return None
    parts = latent_query(q, q_rope, layer, shape)
    if q_rope is None:  # in one piece already
        query = q.view(q.shape[0], -1, shape.kv_cache_dim).contiguous()
    else:
        query = torch.cat(parts, dim=-1)
    return exchange.gather_heads(query, shape.kv_lora_rank)


def own_state(
    kernel: PagedMla | None,
    q: torch.Tensor,
    q_rope: torch.Tensor | None,
    k: torch.Tensor | None,
    k_rope: torch.Tensor | None,
    layer: LayerLike,
    pool: KvPoolLike,
    shape: MlaShape,
) -> State | None:
    """This rank's heads over the pass's own tokens, ``([T, H, kv_lora_rank], [T, H])``.

    ``kernel`` is planned causally over the rows of ``k`` in their order, None where the cache is
    whole. The rows are rounded as the cache rounds them, so that a pass sees what later ones will.

    Raises:
        ValueError: no ``k``.
    """
    if kernel is None:
        return None
    if k is None:
        raise ValueError(
            f"layer {layer.layer_id}: k is None; over a cache that is sharded by decode context "
            f"parallel, a pass of several tokens per request attends its own latent rows from k"
        )
    scale = one_scale(pool_scale(pool, layer))
    latent, rope = (stored_rows(r, shape.kv_dtype, scale) for r in pass_rows(k, k_rope, shape))
    query = latent_query(q, q_rope, layer, shape)
    out, lse = kernel.run(*query, latent, rope, kv_scale=scale)
    assert lse is not None
    return out, lse
