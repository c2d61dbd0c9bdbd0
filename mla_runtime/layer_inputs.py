"""What every MLA backend does around its kernel: write the latent rows, shape the inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from mla_runtime.protocols import ForwardBatchLike, KvPoolLike, LayerLike
    from mla_runtime.settings import MlaShape

__all__ = [
    "check_layer",
    "expanded_heads",
    "latent_query",
    "pass_rows",
    "pool_scale",
    "to_cache_dtype",
    "write_kv",
]


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


def pass_rows(
    k: torch.Tensor, k_rope: torch.Tensor | None, shape: MlaShape
) -> tuple[torch.Tensor, torch.Tensor]:
    """``(latent[T, 1, kv_lora_rank], rope[T, 1, rope])`` of split or combined latent rows."""
    if k_rope is not None:
        return k.view(-1, 1, shape.kv_lora_rank), k_rope.view(-1, 1, shape.qk_rope_head_dim)
    rows = k.view(-1, 1, shape.kv_cache_dim)
    return rows[..., : shape.kv_lora_rank], rows[..., shape.kv_lora_rank :]


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


def pool_scale(pool: KvPoolLike, layer: LayerLike) -> float | torch.Tensor:
    """What a stored value is multiplied by: the pool's to say, since the pool wrote it.

    One number, or float32 ``[rows]`` of a pool with scales per token.

    A pool without ``kv_scale`` stores plain casts (SGLang 0.5.23, ``MLATokenToKVPool``): 1.0,
    whatever ``k_scale`` the layer's checkpoint carries.
    """
    scale_of = getattr(pool, "kv_scale", None)
    if scale_of is None:
        return 1.0
    scale: float | torch.Tensor = scale_of(layer.layer_id)
    return scale


def check_layer(layer: LayerLike, shape: MlaShape) -> None:
    """Refuse a layer that the model's one plan does not fit.

    Raises:
        ValueError: another scaling than the model's, or a soft cap.
    """
    if layer.logit_cap:
        raise ValueError(
            f"layer {layer.layer_id} has logit_cap={layer.logit_cap}; the absorbed MLA kernels "
            f"have no soft cap, expected 0.0"
        )
    if layer.scaling != shape.scaling:
        raise ValueError(
            f"layer {layer.layer_id} has scaling={layer.scaling}; its kernel is planned with the "
            f"model's scaling={shape.scaling}"
        )


def expanded_heads(
    q: torch.Tensor,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    q_rope: torch.Tensor | None,
    k_rope: torch.Tensor | None,
    layer: LayerLike,
    shape: MlaShape,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query, key and value heads of the multi-head form, nope and rope parts joined.

    Raises:
        ValueError: no ``k`` or ``v``, or a layer that is not in the multi-head form.
    """
    if k is None or v is None:
        raise ValueError("the multi-head form attends the k and v it is given, and got None")
    check_layer(layer, shape)
    if layer.head_dim != shape.head_dim_qk or layer.v_head_dim != shape.v_head_dim:
        raise ValueError(
            f"layer {layer.layer_id} has head_dim={layer.head_dim}, v_head_dim="
            f"{layer.v_head_dim}; the multi-head form was planned with {shape.head_dim_qk} and "
            f"{shape.v_head_dim}"
        )
    if q_rope is not None:
        q = _join_rope(q, q_rope, layer.tp_q_head_num, shape)
    if k_rope is not None:
        k = _join_rope(k, k_rope, layer.tp_k_head_num, shape)
    return q, k, v


def _join_rope(nope: torch.Tensor, rope: torch.Tensor, heads: int, shape: MlaShape) -> torch.Tensor:
    """``[T, heads, nope + rope]`` of two parts; a rope part of one head serves all of them."""
    tokens = nope.shape[0]
    rope = rope.view(tokens, -1, shape.qk_rope_head_dim)
    return torch.cat([nope.view(tokens, heads, -1), rope.expand(-1, heads, -1)], dim=-1)


def to_cache_dtype(query: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The query in the dtype of the cache; e4m3 saturates, where a plain cast gives NaN."""
    if dtype != torch.float8_e4m3fn:
        return query.to(dtype)
    limit = torch.finfo(dtype).max
    return query.clamp(-limit, limit).to(dtype)
