"""The flat KV indices of a batch and their offsets, in one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

__all__ = ["gather"]

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
    total: tl.tensor,
    first: tl.constexpr,
    stride: tl.constexpr,
    has_starts: tl.constexpr,
    has_indptr: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Programs ``(i, j)`` share request ``i``; each sums the counts before it for its offset.

    An offset between two requests is written for both, with one value.
    """
    request = tl.program_id(0)
    round_up: tl.constexpr = stride - 1 - first
    counts = tl.zeros([block], tl.int64)
    for begin in range(0, request, block):
        before = begin + tl.arange(0, block)
        tokens = tl.load(lens + before, mask=before < request, other=-round_up).to(tl.int64)
        counts += (tokens + round_up) // stride
    offset = tl.sum(counts, axis=0)
    count = ((tl.load(lens + request) + round_up) // stride).to(tl.int32)
    if has_indptr:
        if tl.program_id(1) == 0:
            tl.store(indptr + request + 1, (offset + count).to(tl.int32))
            tl.store(indptr + request, offset.to(tl.int32))
    row = table + tl.load(requests + request).to(tl.int64) * table_row + first
    if has_starts:
        row += tl.load(starts + request).to(tl.int64)
    step = tl.num_programs(1) * block
    for begin in range(tl.program_id(1) * block, count, step):
        at = begin + tl.arange(0, block)
        inside = (at < count) & (offset + at < total)
        slots = tl.load(row + at.to(tl.int64) * stride, mask=inside, other=0)
        tl.store(out + offset + at, (slots // stride).to(tl.int32), mask=inside)


def gather(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    lens: torch.Tensor,
    starts: torch.Tensor | None,
    first: int,
    stride: int,
    indptr: torch.Tensor | None,
    out: torch.Tensor,
) -> None:
    """As ``gather_slots`` and ``gather_pages`` of ``mla_runtime.indices``, into all of ``out``.

    Rows of ``req_to_token`` are dense. Where ``lens`` ask for more than ``out`` holds, what lies
    beyond is not written.
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
        total,
        first=first,
        stride=stride,
        has_starts=starts is not None,
        has_indptr=indptr is not None,
        block=_BLOCK,
    )
