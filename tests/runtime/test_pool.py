"""The pool keeps what it is given, where it is told to; the allocator hands out whole pages."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mla_runtime import MlaKvPool, MlaModelConfig, SlotAllocator
from tests.runtime.world import FP8

LAYER = MlaModelConfig(num_attention_heads=1, kv_lora_rank=8, qk_rope_head_dim=4).absorbed_layer(0)


def pool_of(dtype: torch.dtype, scales: list[float] | None = None) -> MlaKvPool:
    return MlaKvPool(32, 4, 8, 4, 1, dtype, kv_scales=scales)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_split_and_combined_writes_store_the_same(dtype: torch.dtype) -> None:
    rows, loc = torch.randn(5, 1, 12).to(dtype), torch.tensor([9, 4, 31, 5, 6])
    split, combined = pool_of(dtype), pool_of(dtype)
    split.set_mla_kv_buffer(LAYER, loc, rows[..., :8], rows[..., 8:])
    combined.set_kv_buffer(LAYER, loc, rows, rows[..., :8])
    assert torch.equal(split.get_key_buffer(0), combined.get_key_buffer(0))
    assert torch.equal(split.get_key_buffer(0)[loc], rows)
    latent, rope = split.get_mla_kv_buffer(LAYER, loc, torch.float32)
    assert torch.equal(latent, rows[..., :8].float())
    assert torch.equal(rope, rows[..., 8:].float())
    untouched = torch.ones(36, dtype=torch.bool)
    untouched[loc] = False
    assert not split.get_key_buffer(0)[untouched].any()


def test_an_fp8_pool_stores_scaled_values_and_reads_them_back() -> None:
    pool = pool_of(FP8, [0.25])
    rows, loc = torch.randn(5, 1, 12), torch.tensor([9, 4, 31, 5, 6])
    pool.set_mla_kv_buffer(LAYER, loc, rows[..., :8], rows[..., 8:])
    stored = (rows / 0.25).to(FP8)
    assert torch.equal(pool.get_key_buffer(0)[loc].float(), stored.float())
    latent, _ = pool.get_mla_kv_buffer(LAYER, loc, torch.float32)
    assert torch.equal(latent, stored.float()[..., :8] * 0.25)
    assert pool.get_mla_kv_buffer(LAYER, loc)[0].dtype == torch.bfloat16


def test_an_fp8_pool_saturates_instead_of_storing_nan() -> None:
    pool = pool_of(FP8, [0.001])
    pool.set_kv_buffer(LAYER, torch.tensor([5]), torch.full((1, 1, 12), -3.0), torch.zeros(1))
    assert torch.equal(pool.get_key_buffer(0)[5].float(), torch.full((1, 12), -448.0))


def test_a_scale_per_token_makes_the_largest_value_of_its_row_the_largest_of_fp8() -> None:
    pool = MlaKvPool(32, 4, 8, 4, 1, FP8, scale_per_token=True)
    rows, loc = torch.randn(5, 1, 12) * 10.0 ** torch.arange(-2, 3)[:, None, None], [9, 4, 31, 5, 6]
    rows[1] = 0.0
    pool.set_mla_kv_buffer(LAYER, torch.tensor(loc), rows[..., :8], rows[..., 8:])
    scales = pool.kv_scale(0)
    assert isinstance(scales, torch.Tensor)
    largest = rows.abs().amax(dim=(1, 2))
    expected = torch.ones(36)
    expected[loc] = torch.where(largest > 0, largest / 448.0, 1.0)
    assert torch.equal(scales, expected)
    stored = pool.get_key_buffer(0)[loc].float()
    assert torch.equal(stored, (rows / expected[loc][:, None, None]).to(FP8).float())
    assert stored.abs().amax(dim=(1, 2)).tolist() == [448.0, 0.0, 448.0, 448.0, 448.0]
    latent, rope = pool.get_mla_kv_buffer(LAYER, torch.tensor(loc), torch.float32)
    read = torch.cat([latent, rope], dim=-1)
    assert torch.equal(read, stored * expected[loc][:, None, None])
    assert bool(
        ((read - rows).abs() <= rows.abs() / 16 + largest[:, None, None] / 448 / 2**9).all()
    )


def test_scales_per_token_come_from_rows_that_are_not_quantised_yet() -> None:
    pool = MlaKvPool(32, 4, 8, 4, 1, FP8, scale_per_token=True)
    rows = torch.randn(1, 1, 12).to(FP8)
    with pytest.raises(
        ValueError, match=r"rows of torch\.float8_e4m3fn for a pool with scales per"
    ):
        pool.set_kv_buffer(LAYER, torch.tensor([5]), rows, rows)


@pytest.mark.parametrize(("dtype", "scales"), [(torch.bfloat16, None), (FP8, [1.0])])
def test_scales_per_token_are_for_fp8_alone_and_instead_of_those_per_layer(
    dtype: torch.dtype, scales: list[float] | None
) -> None:
    with pytest.raises(ValueError, match="scale_per_token is for an fp8 pool without kv_scales"):
        MlaKvPool(32, 4, 8, 4, 1, dtype, kv_scales=scales, scale_per_token=True)


def test_an_fp8_pool_takes_rows_that_are_quantised_already() -> None:
    pool = pool_of(FP8, [0.5])
    rows = torch.randn(1, 1, 12).to(FP8)
    pool.set_kv_buffer(LAYER, torch.tensor([5]), rows, rows)
    assert torch.equal(pool.get_key_buffer(0)[5].float(), rows[0].float())


def test_the_value_is_the_latent_part_of_the_key_and_not_a_copy() -> None:
    pool = pool_of(torch.float32)
    assert pool.get_value_buffer(0).data_ptr() == pool.get_key_buffer(0).data_ptr()
    assert pool.get_value_buffer(0).shape == (36, 1, 8)


@pytest.mark.parametrize(
    ("size", "page_size", "dtype", "scales", "words"),
    [
        (30, 4, torch.float32, None, "size=30 must be a multiple of page_size=4"),
        (32, 0, torch.float32, None, "page_size=0"),
        (32, 4, torch.float32, [1.0], "kv_scales are for an fp8 pool"),
        (32, 4, FP8, [1.0, 2.0], "expected 1 positive"),
        (32, 4, FP8, [0.0], "expected 1 positive"),
        (32, 4, FP8, [float("nan")], "expected 1 positive"),
    ],
)
def test_a_pool_that_cannot_be(
    size: int, page_size: int, dtype: torch.dtype, scales: list[float] | None, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        MlaKvPool(size, page_size, 8, 4, 1, dtype, kv_scales=scales)


def test_one_slot_per_row() -> None:
    with pytest.raises(ValueError, match="2 rows for 1 slots"):
        pool_of(torch.float32).set_kv_buffer(
            LAYER, torch.tensor([5]), torch.zeros(2, 1, 12), torch.zeros(1)
        )


@given(
    page_size=st.sampled_from([1, 4, 32]),
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=12),
)
def test_slots_are_page_aligned_distinct_and_never_in_page_0(
    page_size: int, steps: list[tuple[int, int]]
) -> None:
    allocator = SlotAllocator(256 * page_size, page_size)
    slots: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for request, more in steps:
        slots[request] = allocator.extend(slots[request], len(slots[request]) + more)
    taken = [slot for own in slots.values() for slot in own]
    assert len(set(taken)) == len(taken)
    assert all(slot >= page_size for slot in taken)
    for own in slots.values():
        assert all(slot % page_size == p % page_size for p, slot in enumerate(own))


def test_a_full_pool_says_so_and_freed_pages_come_back() -> None:
    allocator = SlotAllocator(8, 4)
    slots = allocator.extend([], 8)
    with pytest.raises(MemoryError, match="token 0 of a request of 1"):
        allocator.extend([], 1)
    allocator.free(slots)
    assert sorted(allocator.extend([], 8)) == sorted(slots)
