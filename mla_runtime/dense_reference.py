"""MLA in float64 as its paper writes it: every key and value expanded, no cache, no absorption."""

from __future__ import annotations

import torch

__all__ = ["dense_mla", "relative_error"]


def dense_mla(
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    latent: torch.Tensor,
    k_pe: torch.Tensor,
    kv_b_weight: torch.Tensor,
    scaling: float,
) -> torch.Tensor:
    """The last ``n`` tokens of one sequence of ``L`` attend to it, causally.

    ``q_nope[n, H, nope]``, ``q_pe[n, H, rope]``, ``latent[L, rank]``, ``k_pe[L, rope]``,
    ``kv_b_weight[H * (nope + v), rank]``; returns float64 ``[n, H, v]``.
    DeepSeek-V2, arXiv:2405.04434, equations 10 to 18, with rotations applied by the caller.
    """
    n, heads, nope = q_nope.shape
    length = latent.shape[0]
    expanded = (latent.double() @ kv_b_weight.double().T).view(length, heads, -1)
    out = torch.zeros(n, heads, expanded.shape[-1] - nope, dtype=torch.float64)
    if length == 0:
        return out
    visible = torch.ones(n, length, dtype=torch.bool).tril(length - n)
    for head in range(heads):
        keys = torch.cat([expanded[:, head, :nope], k_pe.double()], dim=-1)
        query = torch.cat([q_nope[:, head], q_pe[:, head]], dim=-1).double()
        scores = (query @ keys.T) * scaling
        weights = scores.masked_fill(~visible, float("-inf")).softmax(dim=-1)
        out[:, head] = weights @ expanded[:, head, nope:]
    return out


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference over the norm of ``expected``; 0 for two empty or zero tensors."""
    difference = (actual.double().cpu() - expected.double().cpu()).norm()
    scale = expected.double().cpu().norm()
    if scale == 0:
        return 0.0 if difference == 0 else float("inf")
    return float(difference / scale)
