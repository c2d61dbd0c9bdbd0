"""What every MLA backend does around its kernel: write the latent rows, shape the query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from mla_runtime.protocols import ForwardBatchLike, KvPoolLike, LayerLike
    from mla_runtime.settings import MlaShape

__all__ = ["join_rope", "latent_query", "pool_scale", "write_kv"]


def write_kv(
    pool: KvPoolLike,
    layer: LayerLike,
    forward_batch: ForwardBatchLike,
    shape: MlaShape,
    k: torch.Tensor | None,
    k_rope: torch.Tensor | None,
) -> None:
    """Write a pass's latent rows, split (``k_rope`` given) or combined; ``k`` None writes nothing.

    Raises:
        ValueError: ``k`` is not latent: the multi-head form is saved by the layer, not here.
    """
    if k is None:
        return
    tokens = forward_batch.out_cache_loc.shape[0]
    width = shape.kv_cache_dim if k_rope is None else shape.kv_lora_rank
    if k.numel() != tokens * width:
        raise ValueError(
            f"k has shape {list(k.shape)} for {tokens} slots; the MLA cache takes latent rows of "
            f"{width}. Expanded keys are not cached: pass save_kv_cache=False"
        )
    if k_rope is None:
        rows = k.view(tokens, 1, width)
        pool.set_kv_buffer(
            layer, forward_batch.out_cache_loc, rows, rows[..., : shape.kv_lora_rank]
        )
        return
    pool.set_mla_kv_buffer(
        layer,
        forward_batch.out_cache_loc,
        k.view(tokens, 1, width),
        k_rope.view(tokens, 1, shape.qk_rope_head_dim),
    )


def latent_query(
    q: torch.Tensor, q_rope: torch.Tensor | None, layer: LayerLike, shape: MlaShape
) -> tuple[torch.Tensor, torch.Tensor]:
    """``(q_nope[T, H, kv_lora_rank], q_pe[T, H, rope])`` of a combined or split absorbed query.

    Raises:
        ValueError: the layer is not in the absorbed form.
    """
    if layer.head_dim != shape.kv_cache_dim or layer.v_head_dim != shape.kv_lora_rank:
        raise ValueError(
            f"layer {layer.layer_id} has head_dim={layer.head_dim}, v_head_dim={layer.v_head_dim}; "
            f"the paged cache is attended in the absorbed form, {shape.kv_cache_dim} and "
            f"{shape.kv_lora_rank}"
        )
    if q_rope is not None:
        return (
            q.view(-1, layer.tp_q_head_num, shape.kv_lora_rank),
            q_rope.view(-1, layer.tp_q_head_num, shape.qk_rope_head_dim),
        )
    combined = q.view(-1, layer.tp_q_head_num, shape.kv_cache_dim)
    return combined[..., : shape.kv_lora_rank], combined[..., shape.kv_lora_rank :]


def pool_scale(pool: KvPoolLike, layer: LayerLike) -> float:
    """What a stored value is multiplied by: the pool's to say, since the pool wrote it.

    A pool without ``kv_scale`` stores plain casts (SGLang 0.5.23, ``MLATokenToKVPool``): 1.0,
    whatever ``k_scale`` the layer's checkpoint carries.
    """
    scale_of = getattr(pool, "kv_scale", None)
    return 1.0 if scale_of is None else float(scale_of(layer.layer_id))


def join_rope(nope: torch.Tensor, rope: torch.Tensor, heads: int) -> torch.Tensor:
    """``[T, heads, nope + rope]`` of two parts; a rope part of one head serves all of them."""
    tokens = nope.shape[0]
    rope = rope.view(tokens, -1, rope.shape[-1])
    if rope.shape[1] == 1 and rope.shape[-1] % heads == 0 and nope.dim() == 2:
        rope = rope.view(tokens, heads, -1)
    return torch.cat([nope.view(tokens, heads, -1), rope.expand(-1, heads, -1)], dim=-1)
