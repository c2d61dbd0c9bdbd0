"""Attention states of the same queries over disjoint keys: packed for exchange, and merged.

A state is ``out[T, H, D]`` with its natural ``lse[T, H]``. Packed for ``parts`` receivers it is
``[parts, n * (D' + 1)]`` in the dtype of the LSE, where ``n = T * H / parts`` and ``D'`` is ``D``
outputs counted in words of that dtype: each receiver's outputs, then their LSEs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mla_runtime.kernels.softmax import accumulation_dtype

__all__ = ["State", "merge_states", "pack_state", "packed_words", "unpack_states"]

State = tuple[torch.Tensor, torch.Tensor]


def pack_state(out: torch.Tensor, lse: torch.Tensor, parts: int) -> torch.Tensor:
    """``out[T, H, D]`` and ``lse[T, H]`` for ``parts`` receivers of ``H / parts`` heads each."""
    tokens, heads, dim = out.shape
    heads //= parts
    packed = lse.new_empty(parts, packed_words((tokens, heads, dim), out.dtype, lse.dtype))
    if packed.is_cuda:
        from mla_runtime.kernels.triton_states import pack_state_into

        pack_state_into(packed, out, lse)
        return packed
    outs, lses = unpack_states(packed, (tokens, heads, dim), out.dtype)
    outs.copy_(out.view(tokens, parts, heads, dim).transpose(0, 1))
    lses.copy_(lse.view(tokens, parts, heads).transpose(0, 1))
    return packed


def packed_words(shape: Sequence[int], dtype: torch.dtype, lse_dtype: torch.dtype) -> int:
    """Words of ``lse_dtype`` that a state of ``shape``, ``(T, H, D)``, takes."""
    tokens, heads, dim = shape
    return tokens * heads * (dim * dtype.itemsize // lse_dtype.itemsize + 1)


def unpack_states(packed: torch.Tensor, shape: Sequence[int], dtype: torch.dtype) -> State:
    """Views of packed states of ``shape``, ``(T, H, D)``: ``out[N, T, H, D]``, ``lse[N, T, H]``."""
    tokens, heads, dim = shape
    rows = tokens * heads
    outs = packed[:, : packed.shape[1] - rows].view(dtype)
    lses = packed[:, packed.shape[1] - rows :]
    return outs.view(-1, tokens, heads, dim), lses.view(-1, tokens, heads)


def merge_states(
    outs: torch.Tensor, lses: torch.Tensor, own: State | None, dtype: torch.dtype
) -> torch.Tensor:
    """``[T, H, D]``, attention over all keys, from ``outs[N, T, H, D]`` and ``lses[N, T, H]``.

    ``own`` is one more state of the same queries. Sums are formed in float32 (float64 for a float64
    LSE) and rounded once, to ``dtype``. A state without a key (LSE ``-inf``) weighs nothing,
    whatever its output holds; a query without any has output 0.
    """
    if outs.is_cuda:
        from mla_runtime.kernels import triton_states

        return triton_states.merge_states(outs, lses, own, dtype)
    if own is not None:
        outs = torch.cat([outs, own[0][None].to(outs.dtype)])
        lses = torch.cat([lses, own[1][None]])
    total = torch.logsumexp(lses, dim=0)
    weights = torch.exp(lses - total.masked_fill(total == float("-inf"), 0.0))[..., None]
    wide = outs.to(accumulation_dtype(outs.dtype)).masked_fill(weights == 0.0, 0.0)
    return (wide * weights).sum(0).to(dtype)
