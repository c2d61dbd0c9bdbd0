"""``partial_states`` in one launch each: what stands between a kernel and the exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

    from mla_runtime.kernels.partial_states import State

__all__ = ["merge_states", "pack_state_into"]

_WARPS = 2


@triton.jit  # type: ignore[untyped-decorator]
def _pack(
    out: tl.tensor,
    lse: tl.tensor,
    packed_out: tl.tensor,
    packed_lse: tl.tensor,
    tokens: tl.tensor,
    heads: tl.tensor,
    out_token: tl.tensor,
    out_head: tl.tensor,
    lse_token: tl.tensor,
    lse_head: tl.tensor,
    part_out: tl.tensor,
    part_lse: tl.tensor,
    dim: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """One program per token and head; ``heads`` of them go to one receiver."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    part = head // heads
    row = token * heads + head % heads
    at = tl.arange(0, block)
    inside = at < dim
    values = tl.load(out + token * out_token + head * out_head + at, mask=inside)
    tl.store(packed_out + part * part_out + row * dim + at, values, mask=inside)
    sums = tl.load(lse + token * lse_token + head * lse_head)
    tl.store(packed_lse + part * part_lse + row, sums)


def pack_state_into(packed: torch.Tensor, out: torch.Tensor, lse: torch.Tensor) -> None:
    """Fill ``packed`` as ``partial_states.pack_state`` says; the last dimension is contiguous."""
    tokens, heads, dim = out.shape
    parts = packed.shape[0]
    ratio = packed.dtype.itemsize // out.dtype.itemsize
    rows = tokens * heads // parts
    _pack[(tokens, heads)](
        out,
        lse,
        packed.view(out.dtype),
        packed[:, packed.shape[1] - rows :],
        tokens,
        heads // parts,
        out.stride(0),
        out.stride(1),
        lse.stride(0),
        lse.stride(1),
        packed.stride(0) * ratio,
        packed.stride(0),
        dim=dim,
        block=triton.next_power_of_2(dim),
        num_warps=_WARPS,
    )


@triton.jit  # type: ignore[untyped-decorator]
def _merge(
    outs: tl.tensor,
    lses: tl.tensor,
    own_out: tl.tensor,
    own_lse: tl.tensor,
    merged: tl.tensor,
    heads: tl.tensor,
    out_state: tl.tensor,
    out_token: tl.tensor,
    out_head: tl.tensor,
    lse_state: tl.tensor,
    lse_token: tl.tensor,
    lse_head: tl.tensor,
    own_token: tl.tensor,
    own_head: tl.tensor,
    own_lse_token: tl.tensor,
    own_lse_head: tl.tensor,
    states: tl.constexpr,
    has_own: tl.constexpr,
    dim: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """One program per token and head, over all states of it."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    outs += token * out_token + head * out_head
    lses += token * lse_token + head * lse_head
    at = tl.arange(0, block)
    inside = at < dim
    largest = float("-inf")
    for state in tl.static_range(states):
        largest = tl.maximum(largest, tl.load(lses + state * lse_state))
    if has_own:
        extra = tl.load(own_lse + token * own_lse_token + head * own_lse_head)
        largest = tl.maximum(largest, extra)
    # For a query without a key, so that every weight below is 0 and not NaN.
    largest = tl.where(largest == float("-inf"), 0.0, largest)
    total = 0.0
    values = tl.zeros([block], dtype=tl.float32)
    for state in tl.static_range(states):
        weight = tl.exp(tl.load(lses + state * lse_state) - largest)
        part = tl.load(outs + state * out_state + at, mask=inside).to(tl.float32)
        values += tl.where(weight > 0.0, part * weight, 0.0)
        total += weight
    if has_own:
        weight = tl.exp(extra - largest)
        source = own_out + token * own_token + head * own_head + at
        part = tl.load(source, mask=inside).to(tl.float32)
        values += tl.where(weight > 0.0, part * weight, 0.0)
        total += weight
    values = values / tl.where(total > 0.0, total, 1.0)
    row = merged + (token * heads + head) * dim
    tl.store(row + at, values.to(merged.dtype.element_ty), mask=inside)


def merge_states(
    outs: torch.Tensor, lses: torch.Tensor, own: State | None, dtype: torch.dtype
) -> torch.Tensor:
    """As ``partial_states.merge_states``; the last dimension is contiguous."""
    states, tokens, heads, dim = outs.shape
    merged = outs.new_empty(tokens, heads, dim, dtype=dtype)
    own_out, own_lse = (outs[0], lses[0]) if own is None else own
    _merge[(tokens, heads)](
        outs,
        lses,
        own_out,
        own_lse,
        merged,
        heads,
        *outs.stride()[:3],
        *lses.stride(),
        own_out.stride(0),
        own_out.stride(1),
        own_lse.stride(0),
        own_lse.stride(1),
        states=states,
        has_own=own is not None,
        dim=dim,
        block=triton.next_power_of_2(dim),
        num_warps=_WARPS,
    )
    return merged
