"""Softmax attention over one request's keys, blocked over queries, with natural LSE."""

from __future__ import annotations

import torch

__all__ = ["accumulation_dtype", "attend", "merge_state"]

_MAX_SCORES = 1 << 24
"""Scores held at once: 64 MiB in float32, so that a long prefill does not exhaust the memory."""


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which scores and sums are formed: float64 stays, all else is float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of ``q[n, H, d]`` to ``k[m, Hk, d]``, ``v[m, Hk, dv]`` where ``Hk`` is 1 or ``H``.

    Inputs have the accumulation dtype. A causal mask is aligned bottom-right. Returns
    ``out[n, H, dv]`` and ``lse[n, H]``, natural; a query without a key has 0 and ``-inf``.
    """
    n, heads, _ = q.shape
    m = k.shape[0]
    out = q.new_zeros(n, heads, v.shape[-1])
    lse = q.new_full((n, heads), float("-inf"))
    if n == 0 or m == 0:
        return out, lse
    shared = k.shape[1] == 1
    keys = k[:, 0].T if shared else k.permute(1, 2, 0)
    values = v[:, 0] if shared else v.transpose(0, 1)
    key_positions = torch.arange(m, device=q.device)
    rows = max(1, _MAX_SCORES // (heads * m))
    for start in range(0, n, rows):
        stop = min(start + rows, n)
        seen = min(m, max(0, stop + m - n)) if causal else m
        if seen == 0:
            continue
        block = q[start:stop].transpose(0, 1)
        scores = torch.matmul(block, keys[..., :seen]) * sm_scale
        if causal:
            last_visible = torch.arange(start, stop, device=q.device) + (m - n)
            scores.masked_fill_(key_positions[:seen] > last_visible[:, None], float("-inf"))
        block_lse = torch.logsumexp(scores, dim=-1)
        empty = block_lse == float("-inf")
        weights = torch.exp(scores - block_lse.masked_fill(empty, 0.0)[..., None])
        out[start:stop] = torch.matmul(weights, values[..., :seen, :]).transpose(0, 1)
        lse[start:stop] = block_lse.T
    return out, lse


def merge_state(
    out_a: torch.Tensor, lse_a: torch.Tensor, out_b: torch.Tensor, lse_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """``PlannedKernels.merge_state`` in torch; two empty states merge to an empty one.

    Outputs of two dtypes merge to the wider one.
    """
    lse = torch.logaddexp(lse_a, lse_b)
    base = lse.masked_fill(lse == float("-inf"), 0.0)
    weight_a = torch.exp(lse_a - base)[..., None]
    weight_b = torch.exp(lse_b - base)[..., None]
    dtype = accumulation_dtype(out_a.dtype)
    out = out_a.to(dtype) * weight_a + out_b.to(dtype) * weight_b
    return out.to(torch.promote_types(out_a.dtype, out_b.dtype)), lse
