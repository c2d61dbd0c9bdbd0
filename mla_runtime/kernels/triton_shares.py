"""Which tiles a batch has, and its requests put together from what several programs computed."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["combine", "number_tiles"]


@triton.jit  # type: ignore[untyped-decorator]
def number_tiles(
    kv_len: tl.tensor,
    kv_indptr: tl.tensor,
    batch_info: tl.tensor,
    batch: tl.tensor,
    info_row: tl.tensor,
    tile: tl.constexpr,
    most_requests: tl.constexpr,
) -> None:
    """Row 0 of ``batch_info``: where each request's tiles begin, and how many there are; rows 1
    and 2: its first index and its length. One program.
    """
    at = tl.arange(0, most_requests)
    inside = at < batch
    length = tl.load(kv_len + at, mask=inside, other=0).to(tl.int32)
    tiles = (length + tile - 1) // tile
    ends = tl.cumsum(tiles, axis=0)
    tl.store(batch_info + at, ends - tiles, mask=inside)
    tl.store(batch_info + batch, tl.sum(tiles, axis=0))
    index = tl.load(kv_indptr + at, mask=inside, other=0).to(tl.int32)
    tl.store(batch_info + info_row + at, index, mask=inside)
    tl.store(batch_info + 2 * info_row + at, length, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def combine(
    part_out: tl.tensor,
    part_lse: tl.tensor,
    batch_info: tl.tensor,
    out: tl.tensor,
    lse: tl.tensor,
    batch: tl.tensor,
    shares: tl.tensor,
    heads: tl.tensor,
    rank: tl.constexpr,
    columns: tl.constexpr,
    parts: tl.constexpr,
    with_lse: tl.constexpr,
) -> None:
    """Programs ``(request, head, columns)`` put together what several programs computed of a
    request, weighted by their sums, and write zeros for one without a key.
    """
    request = tl.program_id(0)
    head = tl.program_id(1)
    column = tl.program_id(2) * columns + tl.arange(0, columns)
    share = tl.maximum(tl.cdiv(tl.load(batch_info + batch), shares), 1)
    first = tl.load(batch_info + request)
    end = tl.load(batch_info + request + 1)
    row = (request * heads + head).to(tl.int64)
    if first == end:
        tl.store(out + row * rank + column, tl.zeros([columns], out.dtype.element_ty))
        if with_lse:
            tl.store(lse + row, float("-inf"))
    elif (end - 1) // share > first // share:
        top = float("-inf")
        total = 0.0
        acc = tl.zeros([columns], tl.float32)
        for begin in range(first // share, (end - 1) // share + 1, parts):
            program = begin + tl.arange(0, parts)
            inside = program <= (end - 1) // share
            part = 2 * program + (program * share <= first).to(tl.int32)
            at = (part * heads + head).to(tl.int64)
            sums = tl.load(part_lse + at, mask=inside, other=float("-inf"))
            new_top = tl.maximum(top, tl.max(sums, 0))
            weight = tl.exp2(sums - new_top)
            factor = tl.exp2(top - new_top)
            values = tl.load(
                part_out + at[:, None] * rank + column[None, :], mask=inside[:, None], other=0.0
            )
            acc = acc * factor + tl.sum(values * weight[:, None], 0)
            total = total * factor + tl.sum(weight, 0)
            top = new_top
        tl.store(out + row * rank + column, (acc / total).to(out.dtype.element_ty))
        if with_lse:
            tl.store(lse + row, (top + tl.log2(total)) * 0.6931471805599453)
