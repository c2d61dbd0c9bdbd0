"""A pass's latent and rope rows into the cache, in one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

    from mla_runtime.kv_shard import KvShard

__all__ = ["store_rows"]


@triton.jit  # type: ignore[untyped-decorator]
def _store(
    buffer: tl.tensor,
    slots: tl.tensor,
    latent: tl.tensor,
    rope: tl.tensor,
    buffer_row: tl.tensor,
    latent_row: tl.tensor,
    rope_row: tl.tensor,
    rank: tl.constexpr,
    world: tl.constexpr,
    latent_dim: tl.constexpr,
    latent_block: tl.constexpr,
    rope_dim: tl.constexpr,
    rope_block: tl.constexpr,
) -> None:
    """One program per token; those of other ranks are left alone."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token).to(tl.int64)
    held = slot % world == rank
    row = buffer + slot // world * buffer_row
    at = tl.arange(0, latent_block)
    inside = (at < latent_dim) & held
    values = tl.load(latent + token * latent_row + at, mask=inside)
    tl.store(row + at, values.to(buffer.dtype.element_ty), mask=inside)
    at = tl.arange(0, rope_block)
    inside = (at < rope_dim) & held
    values = tl.load(rope + token * rope_row + at, mask=inside)
    tl.store(row + latent_dim + at, values.to(buffer.dtype.element_ty), mask=inside)


def store_rows(
    buffer: torch.Tensor,
    slots: torch.Tensor,
    latent: torch.Tensor,
    rope: torch.Tensor,
    shard: KvShard,
) -> None:
    """Write ``latent[n, 1, rank]`` and ``rope[n, 1, rope]`` at ``slots[n]`` of ``buffer``.

    ``buffer`` is ``[rows, 1, rank + rope]`` of any float dtype but fp8; of all slots those that
    ``shard`` holds are written, each in its row.
    """
    latent, rope = (x if x.stride(-1) == 1 else x.contiguous() for x in (latent, rope))
    _store[(slots.shape[0],)](
        buffer,
        slots,
        latent,
        rope,
        buffer.stride(0),
        latent.stride(0),
        rope.stride(0),
        rank=shard.rank,
        world=shard.world,
        latent_dim=latent.shape[-1],
        latent_block=triton.next_power_of_2(latent.shape[-1]),
        rope_dim=rope.shape[-1],
        rope_block=triton.next_power_of_2(rope.shape[-1]),
        num_warps=2,
    )
