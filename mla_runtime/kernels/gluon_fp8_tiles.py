"""Tiles of 64 cached tokens in e4m3 for `gluon_fp8_decode`: how they are loaded and turned."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    async_copy,
    fence_async_shared,
    mbarrier,
)

__all__ = ["loader", "turner"]


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
def loader(
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
def turner(
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
