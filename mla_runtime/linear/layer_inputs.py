"""From what an engine passes to what the delta rule reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mla_runtime.linear.delta_rule import DeltaInputs
from mla_runtime.linear.gates import gated_log_decay, l2_normalized, wide

if TYPE_CHECKING:
    from mla_runtime.linear.layer import LinearLayerLike

__all__ = ["gated_inputs", "projections", "split_projections"]

Projections = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def projections(
    layer: LinearLayerLike,
    q: torch.Tensor | None,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    mixed_qkv: torch.Tensor | None,
) -> Projections:
    """``q``, ``k``, ``v``, ``[T, heads * head size]``, given apart or as one ``mixed_qkv``.

    Raises:
        ValueError: neither or both are given, or their sizes are not the layer's.
    """
    if mixed_qkv is not None:
        if not (q is None and k is None and v is None):
            raise ValueError(f"layer {layer.layer_id} got mixed_qkv and q, k, v; expected one form")
        if mixed_qkv.dim() != 2 or mixed_qkv.shape[1] != sum(_widths(layer)):
            raise ValueError(
                f"layer {layer.layer_id} got mixed_qkv {tuple(mixed_qkv.shape)}; expected "
                f"(tokens, {sum(_widths(layer))})"
            )
        return split_projections(layer, mixed_qkv)
    if q is None or k is None or v is None:
        raise ValueError(f"layer {layer.layer_id} got neither mixed_qkv nor all of q, k and v")
    for name, x, width in zip("qkv", (q, k, v), _widths(layer), strict=True):
        if x.shape != (v.shape[0], width):
            raise ValueError(
                f"layer {layer.layer_id} got {name} {tuple(x.shape)}; expected "
                f"({v.shape[0]}, {width})"
            )
    return q, k, v


def split_projections(layer: LinearLayerLike, mixed_qkv: torch.Tensor) -> Projections:
    """Views of the query, key and value channels of ``mixed_qkv[T, conv_dim]``."""
    q, k, v = torch.split(mixed_qkv, _widths(layer), dim=-1)
    return q, k, v


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
    for name, x, width in (("a", a, heads * decays_per_head), ("b", b, heads)):
        if x is None or x.shape != (tokens, width):
            got = None if x is None else tuple(x.shape)
            raise ValueError(
                f"layer {layer.layer_id} got {name}={got}; expected ({tokens}, {width})"
            )
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
