"""Absorbed decode over an e4m3 cache on SM90, on fp8 tensor cores: the device's side.

Cached keys go to ``wgmma`` as they are stored. What is multiplied with them goes as two e4m3
*pieces*, the value and what the first piece leaves of it, so that a bfloat16 query keeps its eight
bits; both pieces are rows of one product, and their rows are added. Rows ``16 g + r`` and
``16 g + 8 + r`` are the pieces of head ``8 g + r``, because one thread holds both.

A product of two fp8 operands needs the second one contiguous along what is summed over. Scores sum
over dims, as the cache lies; values sum over tokens, so that each tile is turned in shared memory.
Tokens and dims come out permuted (`_turned`), which the weights and the epilogue follow.

One program per multiprocessor takes an equal share of all tiles of all requests (stream-K: Osama
et al., arXiv:2301.03598), in three roles: loader, turner, and the consumer, which computes a tile's
scores while it weighs the tile before. Parts of a request are put together by `combine`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    async_copy,
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

__all__ = ["TILE", "combine", "decode", "number_tiles"]

TILE = 64
"""Tokens per tile: the columns of one product of scores, and what `_turned` is written for."""


@gluon.jit  # type: ignore[untyped-decorator]
def _turned(x: gl.tensor, words: gl.constexpr) -> gl.tensor:
    """``[64, words]`` int32, four dims of a token each, as ``[4 * words, 16]``, four tokens each.

    With t0 the lowest bit of a token's number and d0 that of a dim's, a row's number has the bits
    .. d4 d3 d1 d0 d2 and a byte's place in it t2 t1 t5 t4 t3 t0: so a thread turns what it holds,
    reads rows that lie in different banks and writes 16 bytes at once.
    """
    x = x.reshape([2, 2, 2, 2, 2, 2, words]).permute([0, 1, 3, 4, 6, 2, 5])
    even, odd = gl.split(x)
    a, c = gl.split(even)
    b, d = gl.split(odd)
    y0, y1, y2, y3 = gl.inline_asm_elementwise(
        """{ .reg .b32 p, q, r, s;
             prmt.b32 p, $4, $5, 0x5140;
             prmt.b32 q, $6, $7, 0x5140;
             prmt.b32 r, $4, $5, 0x7362;
             prmt.b32 s, $6, $7, 0x7362;
             prmt.b32 $0, p, q, 0x5410;
             prmt.b32 $1, p, q, 0x7632;
             prmt.b32 $2, r, s, 0x5410;
             prmt.b32 $3, r, s, 0x7632; }""",
        "=r,=r,=r,=r,r,r,r,r",
        [a, b, c, d],
        dtype=(gl.int32, gl.int32, gl.int32, gl.int32),
        is_pure=True,
        pack=1,
    )
    y = gl.join(gl.join(y0, y2), gl.join(y1, y3))
    y = y.reshape([2, 2, 2, 2, words // 2, 2, 2, 2]).permute([4, 6, 7, 5, 2, 3, 0, 1])
    return y.reshape([4 * words, 16])


@gluon.jit  # type: ignore[untyped-decorator]
def _rows_of(pages: gl.tensor, at: gl.tensor, length: gl.tensor, page_size: gl.tensor) -> gl.tensor:
    """Cache rows of a request's tokens ``at``; beyond its length, that of its last."""
    at = gl.minimum(at, length - 1)
    return gl.load(pages + at // page_size).to(gl.int64) * page_size + at % page_size


@gluon.jit  # type: ignore[untyped-decorator]
def _loader(
    cache: gl.tensor,
    indices: gl.tensor,
    batch_info: gl.tensor,
    info_row: gl.tensor,
    row_words: gl.tensor,
    k_words: gl.shared_memory_descriptor,
    rope_words: gl.shared_memory_descriptor,
    k_ready: gl.shared_memory_descriptor,
    k_empty: gl.shared_memory_descriptor,
    tile: gl.tensor,
    last: gl.tensor,
    request: gl.tensor,
    page_size: gl.tensor,
    rank: gl.constexpr,
    rope: gl.constexpr,
    stages: gl.constexpr,
) -> None:
    """Fills stages; nothing in this role waits for its own copies, as a proxy fence would."""
    warps: gl.constexpr = gl.num_warps()
    k_l: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [warps, 1], [1, 0])
    rope_l: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [warps, 1], [1, 0])
    k_token = gl.arange(0, 64, layout=gl.SliceLayout(1, k_l))
    k_word = gl.arange(0, rank // 4, layout=gl.SliceLayout(0, k_l))
    rope_token = gl.arange(0, 64, layout=gl.SliceLayout(1, rope_l))
    rope_word = rank // 4 + gl.arange(0, rope // 4, layout=gl.SliceLayout(0, rope_l))
    i = 0
    while tile < last:
        first = gl.load(batch_info + request)
        stop = gl.minimum(gl.load(batch_info + request + 1), last)
        if stop > tile:
            pages = indices + gl.load(batch_info + info_row + request)
            length = gl.load(batch_info + 2 * info_row + request)
            at = (tile - first) * 64
            k_row = _rows_of(pages, at + k_token, length, page_size)
            rope_row = _rows_of(pages, at + rope_token, length, page_size)
            for _ in range(tile, stop):
                stage = i % stages
                at += 64
                next_k_row = _rows_of(pages, at + k_token, length, page_size)
                next_rope_row = _rows_of(pages, at + rope_token, length, page_size)
                mbarrier.wait(k_empty.index(stage), ((i // stages) & 1) ^ 1)
                async_copy.async_copy_global_to_shared(
                    k_words.index(stage), cache + k_row[:, None] * row_words + k_word[None, :]
                )
                async_copy.async_copy_global_to_shared(
                    rope_words.index(stage),
                    cache + rope_row[:, None] * row_words + rope_word[None, :],
                )
                async_copy.mbarrier_arrive(k_ready.index(stage), increment_count=False)
                k_row = next_k_row
                rope_row = next_rope_row
                i += 1
        tile = stop
        request += 1


@gluon.jit  # type: ignore[untyped-decorator]
def _turner(
    k_words: gl.shared_memory_descriptor,
    v_words: gl.shared_memory_descriptor,
    k_ready: gl.shared_memory_descriptor,
    k_empty: gl.shared_memory_descriptor,
    v_ready: gl.shared_memory_descriptor,
    v_empty: gl.shared_memory_descriptor,
    tile: gl.tensor,
    last: gl.tensor,
    rank: gl.constexpr,
    stages: gl.constexpr,
) -> None:
    layout: gl.constexpr = gl.DistributedLinearLayout(
        [[1, 0], [8, 0], [16, 0], [32, 0], [0, 16]],
        [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]],
        [[0, 8]],
        [],
        [64, 32],
    )
    for i in range(last - tile):
        stage = i % stages
        half = i % 2
        mbarrier.wait(k_ready.index(stage), (i // stages) & 1)
        mbarrier.wait(v_empty.index(half), ((i // 2) & 1) ^ 1)
        for part in gl.static_range(rank // 128):
            x = k_words.index(stage).slice(part * 32, 32, dim=1).load(layout)
            v_words.index(half).slice(part * 128, 128, dim=0).store(_turned(x, 32))
        fence_async_shared()
        gl.thread_barrier()
        mbarrier.arrive(k_empty.index(stage), count=1)
        mbarrier.arrive(v_ready.index(half), count=1)


@gluon.jit  # type: ignore[untyped-decorator]
def _per_row(x: gl.tensor, layout: gl.constexpr) -> gl.tensor:
    """One value per head for both its rows."""
    both = gl.join(x, x).reshape([4, 8, 1, 2]).permute([0, 3, 1, 2]).reshape([64, 1])
    return gl.convert_layout(both.reshape([64]), layout)


@gluon.jit  # type: ignore[untyped-decorator]
def _piece(x: gl.tensor, big: gl.tensor, rest: gl.tensor) -> gl.tensor:
    """What e4m3 holds of ``x / big``, or in the rows of ``rest`` what it holds of the rest."""
    x = x / big[:, None]
    return gl.where(rest[:, None], x - x.to(gl.float8e4nv).to(gl.float32), x).to(gl.float8e4nv)


@gluon.jit  # type: ignore[untyped-decorator]
def _scores(
    q_sm: gl.shared_memory_descriptor,
    q_rope_sm: gl.shared_memory_descriptor,
    k_sm: gl.shared_memory_descriptor,
    rope_sm: gl.shared_memory_descriptor,
    zero: gl.tensor,
) -> gl.tensor:
    s = warpgroup_mma(
        q_sm,
        k_sm.permute((1, 0)),
        zero,
        use_acc=False,
        is_async=True,
        max_num_imprecise_acc=q_sm.shape[1],
    )
    return warpgroup_mma(q_rope_sm, rope_sm.permute((1, 0)), s, is_async=True)


@gluon.jit  # type: ignore[untyped-decorator]
def _per_head(s: gl.tensor, layout: gl.constexpr) -> gl.tensor:
    return gl.convert_layout(gl.sum(s.reshape([4, 2, 8, 64]), 1).reshape([32, 64]), layout)


@gluon.jit  # type: ignore[untyped-decorator]
def _weigh(
    s: gl.tensor,
    scale: gl.tensor,
    token: gl.tensor,
    left: gl.tensor,
    top: gl.tensor,
    total: gl.tensor,
    p_sm: gl.shared_memory_descriptor,
) -> tuple[gl.tensor, gl.tensor, gl.tensor]:
    """Weights of one tile into ``p_sm``, times 256; the new maximum, the factor, the new sum."""
    s = gl.where((token < left)[None, :], s, float("-inf"))
    new_top = gl.maximum(top, gl.max(s, 1) * scale)
    factor = gl.exp2(top - new_top)
    p = gl.exp2(s * scale[:, None] - (new_top - 8.0)[:, None])
    total = total * factor[:, None] + p
    # the first piece is what e4m3 holds of the fraction, cut, not rounded: the rest is exact
    first = (p.to(gl.int32, bitcast=True) & -1048576).to(gl.float32, bitcast=True)
    pieces = gl.join(first.to(gl.float8e4nv), (p - first).to(gl.float8e4nv))
    pieces = pieces.reshape([4, 8, 2, 2, 2, 2, 2, 2, 2]).permute([0, 8, 1, 5, 6, 2, 3, 4, 7])
    p_sm.store(pieces.reshape([64, 64]))
    fence_async_shared()
    gl.thread_barrier()
    return new_top, factor, total


@gluon.jit  # type: ignore[untyped-decorator]
def _give_part(
    x: gl.tensor,
    to: gl.tensor,
    begin: gl.constexpr,
    head_base: gl.tensor,
    heads: gl.tensor,
    block: gl.constexpr,
    rank: gl.constexpr,
) -> None:
    """32 columns from ``begin`` and as many from half the rank above it."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [8, 1], [1, 0])
    x = gl.convert_layout(x.reshape([32, 64]), layout)
    head = gl.arange(0, 32, layout=gl.SliceLayout(1, layout))
    n = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    column = (n >> 5) * (rank // 2) + begin + (n & 31)
    inside = (head < block) & (head_base + head < heads)
    at = (head_base + head)[:, None] * rank + column[None, :]
    gl.store(to + at, x.to(to.dtype.element_ty), mask=inside[:, None])


@gluon.jit  # type: ignore[untyped-decorator]
def _give(
    out: gl.tensor,
    to: gl.tensor,
    head_base: gl.tensor,
    heads: gl.tensor,
    block: gl.constexpr,
    rank: gl.constexpr,
) -> None:
    """``out[32, 512]``, columns d8 .. d3 d1 d0 d2, by eighths: a whole one's exchange between
    threads would need memory that the stages have.
    """
    out = out.reshape([32, 2, 2, 2, 2, 4, 2, 2, 2]).permute([0, 1, 5, 8, 6, 7, 4, 2, 3])
    x0, x1 = gl.split(out)
    x0, x2 = gl.split(x0)
    x1, x3 = gl.split(x1)
    x0, x4 = gl.split(x0)
    x1, x5 = gl.split(x1)
    x2, x6 = gl.split(x2)
    x3, x7 = gl.split(x3)
    _give_part(x0, to, 0, head_base, heads, block, rank)
    _give_part(x4, to, 32, head_base, heads, block, rank)
    _give_part(x1, to, 64, head_base, heads, block, rank)
    _give_part(x5, to, 96, head_base, heads, block, rank)
    _give_part(x2, to, 128, head_base, heads, block, rank)
    _give_part(x6, to, 160, head_base, heads, block, rank)
    _give_part(x3, to, 192, head_base, heads, block, rank)
    _give_part(x7, to, 224, head_base, heads, block, rank)


@gluon.jit  # type: ignore[untyped-decorator]
def _consumer(
    q_nope: gl.tensor,
    q_pe: gl.tensor,
    q_token: gl.tensor,
    q_head: gl.tensor,
    pe_token: gl.tensor,
    pe_head: gl.tensor,
    batch_info: gl.tensor,
    info_row: gl.tensor,
    out: gl.tensor,
    lse: gl.tensor,
    part_out: gl.tensor,
    part_lse: gl.tensor,
    q_sm: gl.shared_memory_descriptor,
    q_rope_sm: gl.shared_memory_descriptor,
    k_sm: gl.shared_memory_descriptor,
    rope_sm: gl.shared_memory_descriptor,
    v_sm: gl.shared_memory_descriptor,
    p_sm: gl.shared_memory_descriptor,
    k_ready: gl.shared_memory_descriptor,
    k_empty: gl.shared_memory_descriptor,
    v_ready: gl.shared_memory_descriptor,
    v_empty: gl.shared_memory_descriptor,
    tile: gl.tensor,
    last: gl.tensor,
    request: gl.tensor,
    score_scale: gl.tensor,
    value_scale: gl.tensor,
    heads: gl.tensor,
    block: gl.constexpr,
    rank: gl.constexpr,
    stages: gl.constexpr,
    with_lse: gl.constexpr,
) -> None:
    acc_l: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 2], [16, rank // 2, 32])
    acc_row: gl.constexpr = gl.SliceLayout(1, acc_l)
    s_l: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 2], [16, 32, 32])
    # what a thread holds of the scores, once its two rows of a head are added
    head_l: gl.constexpr = gl.DistributedLinearLayout(
        [[0, 1], [0, 8], [0, 16]],
        [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],
        [[8, 0], [16, 0], [0, 32]],
        [],
        [32, 64],
    )
    per_head: gl.constexpr = gl.SliceLayout(1, head_l)
    # 64 columns at a time: all 512 at once gave wrong queries under Triton 3.6.0, for a reason that
    # was not found
    q_l: gl.constexpr = gl.BlockedLayout([1, 16], [8, 4], [8, 1], [1, 0])

    head_base = gl.program_id(0) * block
    token = gl.arange(0, 64, layout=gl.SliceLayout(0, head_l))
    head = gl.arange(0, 32, layout=per_head)
    inside = (head < block) & (head_base + head < heads)
    q_row = gl.arange(0, 64, layout=gl.SliceLayout(1, q_l))
    rest = ((q_row >> 3) & 1) == 1
    q_heads = head_base + ((q_row >> 4) % (block // 8)) * 8 + (q_row & 7)
    q_column = gl.arange(0, 64, layout=gl.SliceLayout(0, q_l))
    zero = gl.full([64, 64], 0.0, gl.float32, layout=s_l)
    i = 0
    while tile < last:
        first = gl.load(batch_info + request)
        end = gl.load(batch_info + request + 1)
        stop = gl.minimum(end, last)
        if stop > tile:
            left = gl.load(batch_info + 2 * info_row + request) - (tile - first) * 64
            q = q_nope + request * q_token + q_heads[:, None] * q_head + q_column[None, :]
            held = (q_heads < heads)[:, None]
            big = gl.full([64], 1e-30, gl.float32, layout=gl.SliceLayout(1, q_l))
            for begin in gl.static_range(0, rank, 64):
                x = gl.load(q + begin, mask=held, other=0.0).to(gl.float32)
                big = gl.maximum(big, gl.max(gl.abs(x), 1))
            pe = q_pe + request * pe_token + q_heads[:, None] * pe_head + q_column[None, :]
            x = gl.load(pe, mask=held, other=0.0).to(gl.float32)
            big = gl.maximum(big, gl.max(gl.abs(x), 1))
            # a power of two brings the largest value of a head to 128 or more, below 256
            exponent = big.to(gl.int32, bitcast=True) & 0x7F800000
            big = exponent.to(gl.float32, bitcast=True) * 0.0078125
            for begin in gl.static_range(0, rank, 64):
                x = gl.load(q + begin, mask=held, other=0.0).to(gl.float32)
                q_sm.slice(begin, 64, dim=1).store(_piece(x, big, rest))
            q_rope_sm.store(_piece(gl.load(pe, mask=held, other=0.0).to(gl.float32), big, rest))
            fence_async_shared()
            gl.thread_barrier()
            big = gl.max(big.reshape([4, 2, 8]), 1).reshape([32])
            scale = gl.convert_layout(big, per_head) * score_scale

            top = gl.full([32], float("-inf"), gl.float32, layout=per_head)
            total = gl.full([32, 64], 0.0, gl.float32, layout=head_l)
            acc = gl.full([64, rank], 0.0, gl.float32, layout=acc_l)
            stage = i % stages
            mbarrier.wait(k_ready.index(stage), (i // stages) & 1)
            fence_async_shared()
            s = _scores(q_sm, q_rope_sm, k_sm.index(stage), rope_sm.index(stage), zero)
            s = warpgroup_mma_wait(0, deps=(s,))
            mbarrier.arrive(k_empty.index(stage), count=1)
            weighed = _per_head(s, head_l)
            for _ in range(tile, stop - 1):
                stage = (i + 1) % stages
                half = i % 2
                mbarrier.wait(k_ready.index(stage), ((i + 1) // stages) & 1)
                fence_async_shared()
                s = _scores(q_sm, q_rope_sm, k_sm.index(stage), rope_sm.index(stage), zero)
                top, factor, total = _weigh(
                    weighed, scale, token, left, top, total, p_sm.index(half)
                )
                acc = acc * _per_row(factor, acc_row)[:, None]
                mbarrier.wait(v_ready.index(half), (i // 2) & 1)
                acc = warpgroup_mma(
                    p_sm.index(half), v_sm.index(half).permute((1, 0)), acc, is_async=True
                )
                s = warpgroup_mma_wait(1, deps=(s,))
                mbarrier.arrive(k_empty.index(stage), count=1)
                weighed = _per_head(s, head_l)
                acc = warpgroup_mma_wait(0, deps=(acc,))
                mbarrier.arrive(v_empty.index(half), count=1)
                left -= 64
                i += 1
            half = i % 2
            top, factor, total = _weigh(weighed, scale, token, left, top, total, p_sm.index(half))
            acc = acc * _per_row(factor, acc_row)[:, None]
            mbarrier.wait(v_ready.index(half), (i // 2) & 1)
            acc = warpgroup_mma(
                p_sm.index(half), v_sm.index(half).permute((1, 0)), acc, is_async=True
            )
            acc = warpgroup_mma_wait(0, deps=(acc,))
            mbarrier.arrive(v_empty.index(half), count=1)
            i += 1

            sums = gl.sum(total, 1)
            log2_sum = top + gl.log2(sums) - 8.0
            acc = acc * _per_row(value_scale / sums, acc_row)[:, None]
            result = gl.sum(acc.reshape([4, 2, 8, rank]), 1)
            if (tile == first) & (stop == end):
                _give(result, out + request * heads * rank, head_base, heads, block, rank)
                if with_lse:
                    at = request * heads + head_base + head
                    gl.store(lse + at, log2_sum * 0.6931471805599453, mask=inside)
            else:
                # of one program, at most one part has its request's beginning and one has not
                part = 2 * gl.program_id(1) + (tile == first).to(gl.int32)
                _give(result, part_out + part * heads * rank, head_base, heads, block, rank)
                gl.store(part_lse + part * heads + head_base + head, log2_sum, mask=inside)
        tile = stop
        request += 1


@gluon.jit  # type: ignore[untyped-decorator]
def decode(
    q_nope: gl.tensor,
    q_pe: gl.tensor,
    cache: gl.tensor,
    indices: gl.tensor,
    batch_info: gl.tensor,
    out: gl.tensor,
    lse: gl.tensor,
    part_out: gl.tensor,
    part_lse: gl.tensor,
    score_scale: gl.tensor,
    value_scale: gl.tensor,
    batch: gl.tensor,
    info_row: gl.tensor,
    q_token: gl.tensor,
    q_head: gl.tensor,
    pe_token: gl.tensor,
    pe_head: gl.tensor,
    row_words: gl.tensor,
    heads: gl.tensor,
    block: gl.constexpr,
    rank: gl.constexpr,
    rope: gl.constexpr,
    page_size: gl.tensor,
    most_requests: gl.constexpr,
    with_lse: gl.constexpr,
) -> None:
    """Programs ``(blocks of heads, shares)``, eight warps and four of the workers.

    ``batch_info[3, info_row]`` as `number_tiles` fills it; ``row_words`` is a cache row in int32.
    """
    stages: gl.constexpr = 3
    loaders: gl.constexpr = 2
    fp8: gl.constexpr = gl.float8e4nv
    k_words = gl.allocate_shared_memory(
        gl.int32, [stages, 64, rank // 4], gl.NVMMASharedLayout(128, 32, 2)
    )
    rope_words = gl.allocate_shared_memory(
        gl.int32, [stages, 64, rope // 4], gl.NVMMASharedLayout(64, 32, 2)
    )
    v_words = gl.allocate_shared_memory(gl.int32, [2, rank, 16], gl.NVMMASharedLayout(64, 32, 2))
    k_sm = k_words._reinterpret(fp8, [stages, 64, rank], gl.NVMMASharedLayout(128, 8, 2))
    rope_sm = rope_words._reinterpret(fp8, [stages, 64, rope], gl.NVMMASharedLayout(64, 8, 2))
    v_sm = v_words._reinterpret(fp8, [2, rank, 64], gl.NVMMASharedLayout(64, 8, 2))
    q_sm = gl.allocate_shared_memory(fp8, [64, rank], gl.NVMMASharedLayout(128, 8, 2))
    q_rope_sm = gl.allocate_shared_memory(fp8, [64, rope], gl.NVMMASharedLayout(64, 8, 2))
    p_sm = gl.allocate_shared_memory(fp8, [2, 64, 64], gl.NVMMASharedLayout(64, 8, 2))
    k_ready = gl.allocate_shared_memory(gl.int64, [stages, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [stages, 1], mbarrier.MBarrierLayout())
    v_ready = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(stages):
        mbarrier.init(k_ready.index(stage), count=32 * loaders)
        mbarrier.init(k_empty.index(stage), count=2)
    for half in gl.static_range(2):
        mbarrier.init(v_ready.index(half), count=1)
        mbarrier.init(v_empty.index(half), count=1)

    tiles = gl.load(batch_info + batch)
    share = (tiles + gl.num_programs(1) - 1) // gl.num_programs(1)
    tile = gl.program_id(1) * share
    last = gl.minimum(tile + share, tiles)
    each = gl.arange(0, most_requests, layout=gl.BlockedLayout([1], [32], [gl.num_warps()], [0]))
    ends = gl.load(batch_info + 1 + each, mask=each < batch, other=2147483647)
    request = gl.sum((ends <= tile).to(gl.int32), 0)
    words = cache.to(gl.pointer_type(gl.int32), bitcast=True)
    # what the workers are handed is written where that sum was exchanged, and Triton 3.6 lets a
    # warp write it before another has read the sum
    gl.thread_barrier()
    gl.warp_specialize(
        [
            (
                _consumer,
                (
                    q_nope, q_pe, q_token, q_head, pe_token, pe_head, batch_info, info_row,
                    out, lse, part_out, part_lse, q_sm, q_rope_sm, k_sm, rope_sm, v_sm, p_sm,
                    k_ready, k_empty, v_ready, v_empty, tile, last, request,
                    score_scale, value_scale, heads, block, rank, stages, with_lse,
                ),
            ),
            (
                _turner,
                (k_words, v_words, k_ready, k_empty, v_ready, v_empty, tile, last, rank, stages),
            ),
            (
                _loader,
                (
                    words, indices, batch_info, info_row, row_words, k_words, rope_words,
                    k_ready, k_empty, tile, last, request, page_size, rank, rope, stages,
                ),
            ),
        ],
        [2, loaders],
        [96, 96],
    )  # fmt: skip


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
