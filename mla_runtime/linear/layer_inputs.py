"""From what an engine passes to what the delta rule reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mla_runtime.linear.delta_rule import DeltaInputs
from mla_runtime.linear.gates import gated_log_decay, l2_normalized
from mla_runtime.linear.precision import wide

if TYPE_CHECKING:
    from mla_runtime.linear.layer import LinearLayerLike

__all__ = ["gated_inputs", "mixed_projections", "split_heads"]


def mixed_projections(
    layer: LinearLayerLike,
    q: torch.Tensor | None,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    mixed_qkv: torch.Tensor | None,
) -> torch.Tensor:
    """``[T, conv_dim]``: the query, key and value projections, given so or apart.

    Raises:
        ValueError: neither or both are given, or their sizes are not the layer's.
    """
    apart = (q, k, v)
    if mixed_qkv is not None:
        if any(x is not None for x in apart):
            raise ValueError(f"layer {layer.layer_id} got mixed_qkv and q, k or v; expected one")
        _check("mixed_qkv", mixed_qkv, layer, sum(_widths(layer)))
        return mixed_qkv
    if q is None or k is None or v is None:
        raise ValueError(f"layer {layer.layer_id} got neither mixed_qkv nor all of q, k and v")
    for name, x, width in zip("qkv", (q, k, v), _widths(layer), strict=True):
        _check(name, x, layer, width, v.shape[0])
    return torch.cat([q, k, v], dim=-1)


def split_heads(
    layer: LinearLayerLike, mixed_qkv: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Views of ``mixed_qkv[T, conv_dim]``: query, key and value heads, ``[T, H, D]`` each."""
    q, k, v = torch.split(mixed_qkv, _widths(layer), dim=-1)
    tokens = mixed_qkv.shape[0]
    return (
        q.view(tokens, layer.num_q_heads, layer.head_q_dim),
        k.view(tokens, layer.num_k_heads, layer.head_k_dim),
        v.view(tokens, layer.num_v_heads, layer.head_v_dim),
    )


def _check(
    name: str, x: torch.Tensor | None, layer: LinearLayerLike, width: int, tokens: int | None = None
) -> None:
    got = None if x is None else tuple(x.shape)
    if got is None or len(got) != 2 or got[1] != width or tokens not in (None, got[0]):
        raise ValueError(
            f"layer {layer.layer_id} got {name}={got}; expected "
            f"({'tokens' if tokens is None else tokens}, {width})"
        )


def _widths(layer: LinearLayerLike) -> list[int]:
    return [
        layer.num_q_heads * layer.head_q_dim,
        layer.num_k_heads * layer.head_k_dim,
        layer.num_v_heads * layer.head_v_dim,
    ]


def gated_inputs(
    layer: LinearLayerLike,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    a: torch.Tensor | None,
    b: torch.Tensor | None,
    decays_per_head: int,
) -> DeltaInputs:
    """The inputs of a gated delta rule: heads normalised, ``a`` and ``b`` through their gates.

    Raises:
        ValueError: ``a``, ``b`` or ``A_log`` is missing, or of another size.
    """
    if layer.A_log is None:
        raise ValueError(f"layer {layer.layer_id} has no A_log, which its decay is made from")
    tokens, heads = v.shape[0], layer.num_v_heads
    _check("a", a, layer, heads * decays_per_head, tokens)
    _check("b", b, layer, heads, tokens)
    assert a is not None
    assert b is not None
    return DeltaInputs(
        l2_normalized(q),
        l2_normalized(k),
        v,
        gated_log_decay(a, layer.A_log, layer.dt_bias),
        wide(b).sigmoid(),
        float(layer.head_k_dim) ** -0.5,
    )
