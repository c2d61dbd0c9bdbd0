"""The flat KV indices of a batch and their offsets, in one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

__all__ = ["gather_rows"]

_BLOCK = 1024
_PROGRAMS = 1024
"""Aimed at, over all requests: several per multiprocessor, so that one long request is shared."""


@triton.jit  # type: ignore[untyped-decorator]
def _gather(
    table: tl.tensor,
    requests: tl.tensor,
    lens: tl.tensor,
    starts: tl.tensor,
    out: tl.tensor,
    indptr: tl.tensor,
    table_row: tl.tensor,
    table_column: tl.tensor,
    total: tl.tensor,
    divisor: tl.constexpr,
    has_starts: tl.constexpr,
    has_indptr: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Programs ``(i, j)`` share request ``i``; each sums the lengths before it for its offset.

    An offset between two requests is written for both, with one value.
    """
    request = tl.program_id(0)
    counts = tl.zeros([block], tl.int64)
    for begin in range(0, request, block):
        before = begin + tl.arange(0, block)
        counts += tl.load(lens + before, mask=before < request, other=0).to(tl.int64)
    first = tl.sum(counts, axis=0)
    length = tl.load(lens + request).to(tl.int32)
    if has_indptr:
        if tl.program_id(1) == 0:
            tl.store(indptr + request + 1, (first + length).to(indptr.dtype.element_ty))
            tl.store(indptr + request, first.to(indptr.dtype.element_ty))
    row = table + tl.load(requests + request).to(tl.int64) * table_row
    if has_starts:
        row += tl.load(starts + request).to(tl.int64) * table_column
    step = tl.num_programs(1) * block
    for begin in range(tl.program_id(1) * block, length, step):
        at = begin + tl.arange(0, block)
        inside = (at < length) & (first + at < total)
        slots = tl.load(row + at.to(tl.int64) * table_column, mask=inside, other=0)
        tl.store(out + first + at, (slots // divisor).to(out.dtype.element_ty), mask=inside)


def gather_rows(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    lens: torch.Tensor,
    starts: torch.Tensor | None,
    divisor: int,
    indptr: torch.Tensor | None,
    out: torch.Tensor,
) -> None:
    """As ``mla_runtime.indices.gather_slots`` on a CUDA device, into all of ``out``.

    ``req_to_token`` may be any view: both its strides count. Where ``lens`` sum to more than
    ``out`` holds, what lies beyond is not written.
    """
    batch, total = lens.shape[0], out.shape[0]
    share = max(1, min(-(-_PROGRAMS // batch), -(-total // (batch * _BLOCK))))
    _gather[(batch, share)](
        req_to_token,
        req_pool_indices,
        lens,
        lens if starts is None else starts,
        out,
        out if indptr is None else indptr,
        req_to_token.stride(0),
        req_to_token.stride(1),
        total,
        divisor=divisor,
        has_starts=starts is not None,
        has_indptr=indptr is not None,
        block=_BLOCK,
    )
