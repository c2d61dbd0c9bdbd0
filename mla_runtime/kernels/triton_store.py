"""A pass's latent and rope rows into the cache, in one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from mla_runtime.fp8 import FP8_DTYPES

if TYPE_CHECKING:
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
    scales: tl.tensor,
    scale: tl.tensor,
    limit: tl.constexpr,
    per_token: tl.constexpr,
    rank: tl.constexpr,
    world: tl.constexpr,
    latent_dim: tl.constexpr,
    latent_block: tl.constexpr,
    rope_dim: tl.constexpr,
    rope_block: tl.constexpr,
) -> None:
    """One program per token; those of other ranks are left alone.

    ``limit`` is the largest value of an fp8 buffer, 0 for any other.
    """
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token).to(tl.int64)
    held = slot % world == rank
    index = slot // world
    row = buffer + index * buffer_row
    at = tl.arange(0, latent_block)
    rope_at = tl.arange(0, rope_block)
    inside, rope_inside = (at < latent_dim) & held, (rope_at < rope_dim) & held
    values = tl.load(latent + token * latent_row + at, mask=inside)
    rope_values = tl.load(rope + token * rope_row + rope_at, mask=rope_inside)
    if limit > 0:
        values, rope_values = values.to(tl.float32), rope_values.to(tl.float32)
        if per_token:
            largest = tl.maximum(
                tl.max(tl.where(inside, tl.abs(values), 0.0), 0),
                tl.max(tl.where(rope_inside, tl.abs(rope_values), 0.0), 0),
            )
            scale = tl.where(largest > 0.0, tl.div_rn(largest, limit), 1.0)
            tl.store(scales + index, scale, mask=held)
        values = _saturated(tl.div_rn(values, scale), limit)
        rope_values = _saturated(tl.div_rn(rope_values, scale), limit)
    tl.store(row + at, values.to(buffer.dtype.element_ty), mask=inside)
    tl.store(row + latent_dim + rope_at, rope_values.to(buffer.dtype.element_ty), mask=rope_inside)


@triton.jit  # type: ignore[untyped-decorator]
def _saturated(values: tl.tensor, limit: tl.constexpr) -> tl.tensor:
    """Values within ``limit``; NaN stays NaN."""
    values = tl.where(values > limit, limit, values)
    return tl.where(values < -limit, -limit, values)


def store_rows(
    buffer: torch.Tensor,
    slots: torch.Tensor,
    latent: torch.Tensor,
    rope: torch.Tensor,
    shard: KvShard,
    scale: float | torch.Tensor = 1.0,
) -> None:
    """Write ``latent[n, 1, rank]`` and ``rope[n, 1, rope]`` at ``slots[n]`` of ``buffer``.

    ``buffer`` is ``[rows, 1, rank + rope]`` of any float dtype; of all slots those that ``shard``
    holds are written, each in its row. What an fp8 buffer is given in another dtype is divided by
    ``scale`` and saturated; a ``scale[rows]``, float32, is written too: of each row, what makes its
    largest value the largest that fp8 has.
    """
    latent, rope = (x if x.stride(-1) == 1 else x.contiguous() for x in (latent, rope))
    quantised = buffer.dtype in FP8_DTYPES and latent.dtype != buffer.dtype
    per_token = isinstance(scale, torch.Tensor)
    _store[(slots.shape[0],)](
        buffer,
        slots,
        latent,
        rope,
        buffer.stride(0),
        latent.stride(0),
        rope.stride(0),
        scale if per_token else buffer,
        1.0 if per_token else scale,
        limit=torch.finfo(buffer.dtype).max if quantised else 0.0,
        per_token=per_token,
        rank=shard.rank,
        world=shard.world,
        latent_dim=latent.shape[-1],
        latent_block=triton.next_power_of_2(latent.shape[-1]),
        rope_dim=rope.shape[-1],
        rope_block=triton.next_power_of_2(rope.shape[-1]),
        num_warps=2,
    )
