"""Every backend in every mode against dense float64 MLA, over random batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mla_runtime import AttentionForm, ForwardMode
from mla_runtime.create import BACKENDS
from mla_runtime.dense_reference import relative_error
from mla_runtime.trtllm_mla import TRTLLMMLABackend
from tests.runtime.batches import Composition, compositions, head_counts
from tests.runtime.world import FP8, TOLERANCE, World, with_heads

WIDE = ["torch", "flashinfer", "trtllm_mla", "cutedsl_mla"]
"""Backends that read a cache of the model's own dtype."""

dtypes = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])


def page_sizes(name: str) -> st.SearchStrategy[int]:
    backend = BACKENDS[name]
    if issubclass(backend, TRTLLMMLABackend):
        return st.sampled_from(backend.page_sizes)
    return st.sampled_from([1, 32, 64])


def world_of(data: st.DataObject, name: str, kv_dtype: torch.dtype | None = None) -> World:
    page_size = data.draw(page_sizes(name), label="page_size")
    return World(
        config=with_heads(data.draw(head_counts, label="heads")),
        dtype=torch.float32 if kv_dtype else data.draw(dtypes, label="dtype"),
        kv_dtype=kv_dtype,
        page_size=page_size,
        pages=6 * (-(-150 // page_size)),
        seed=data.draw(st.integers(0, 1 << 16), label="seed"),
    )


def check(
    world: World, name: str, mode: ForwardMode, shape: Composition, form: AttentionForm | None
) -> None:
    one_pass = world.pass_of(mode, shape.prefix_lens, shape.q_lens)
    backend = BACKENDS[name](world.runner)
    out = one_pass.run(backend, form, capacity=shape.capacity)
    assert one_pass.error(out) <= TOLERANCE[world.dtype]


@pytest.mark.parametrize("name", WIDE)
@given(data=st.data(), shape=compositions(new="one"))
def test_decode(name: str, data: st.DataObject, shape: Composition) -> None:
    check(world_of(data, name), name, ForwardMode.DECODE, shape, None)


@pytest.mark.parametrize("name", WIDE)
@given(data=st.data(), shape=compositions(prefix="none"))
def test_extend_without_prefix(name: str, data: st.DataObject, shape: Composition) -> None:
    check(world_of(data, name), name, ForwardMode.EXTEND, shape, None)


@pytest.mark.parametrize("name", ["torch", "flashinfer"])
@given(data=st.data(), shape=compositions())
def test_extend_absorbed(name: str, data: st.DataObject, shape: Composition) -> None:
    world = world_of(data, name)
    world.runner.server_args = replace(world.settings, flashinfer_mla_disable_ragged=True)
    check(world, name, ForwardMode.EXTEND, shape, AttentionForm.MLA)


@pytest.mark.parametrize("name", WIDE)
@given(data=st.data(), shape=compositions())
def test_extend_over_prefix_chunks(name: str, data: st.DataObject, shape: Composition) -> None:
    check(world_of(data, name), name, ForwardMode.EXTEND, shape, AttentionForm.MHA_CHUNKED_KV)


@pytest.mark.parametrize("name", WIDE)
@given(data=st.data(), shape=compositions())
def test_extend_in_one_shot(name: str, data: st.DataObject, shape: Composition) -> None:
    check(world_of(data, name), name, ForwardMode.MIXED, shape, AttentionForm.MHA_ONE_SHOT)


@pytest.mark.parametrize("name", ["trtllm_mla", "cutedsl_mla"])
@given(data=st.data(), shape=compositions())
def test_extend_through_the_parent(name: str, data: st.DataObject, shape: Composition) -> None:
    """With chunks disabled a prefix is attended by the parent, in the absorbed form."""
    world = world_of(data, name)
    world.runner.server_args = replace(world.settings, disable_chunked_prefix_cache=True)
    check(world, name, ForwardMode.EXTEND, shape, None)


@pytest.mark.parametrize("name", WIDE)
@given(data=st.data(), shape=compositions(new="uniform"))
def test_target_verify(name: str, data: st.DataObject, shape: Composition) -> None:
    check(world_of(data, name), name, ForwardMode.TARGET_VERIFY, shape, None)


@pytest.mark.parametrize("name", WIDE)
@given(data=st.data(), shape=compositions(new="ragged"))
def test_draft_extend(name: str, data: st.DataObject, shape: Composition) -> None:
    check(world_of(data, name), name, ForwardMode.DRAFT_EXTEND_V2, shape, None)


FP8_QUERY_MODES = {
    ForwardMode.DECODE: "one",
    ForwardMode.TARGET_VERIFY: "uniform",
    ForwardMode.DRAFT_EXTEND_V2: "ragged",
}


@pytest.mark.parametrize("mode", FP8_QUERY_MODES)
@pytest.mark.parametrize("name", ["trtllm_mla", "cutedsl_mla", "tokenspeed_mla"])
@given(data=st.data())
def test_fp8_cache_and_query(name: str, mode: ForwardMode, data: st.DataObject) -> None:
    """The block-table kernels read e4m3 queries over an e4m3 cache."""
    world = world_of(data, name, FP8)
    shape = data.draw(compositions(new=FP8_QUERY_MODES[mode]))
    one_pass = world.pass_of(mode, shape.prefix_lens, shape.q_lens)
    out = one_pass.run(BACKENDS[name](world.runner))
    assert relative_error(out, one_pass.expected_of_fp8_query()) <= 1e-5


@pytest.mark.parametrize("mode", FP8_QUERY_MODES)
@pytest.mark.parametrize("name", ["torch", "flashinfer"])
@given(data=st.data())
def test_fp8_cache(name: str, mode: ForwardMode, data: st.DataObject) -> None:
    """The planned kernels read queries of the model's dtype over an e4m3 cache."""
    world = world_of(data, name, FP8)
    shape = data.draw(compositions(new=FP8_QUERY_MODES[mode]))
    one_pass = world.pass_of(mode, shape.prefix_lens, shape.q_lens)
    out = one_pass.run(BACKENDS[name](world.runner))
    expected = one_pass.expected(prefix_from_pool=True, new_from_pool=True)
    assert relative_error(out, expected) <= 1e-5


@pytest.mark.parametrize(
    ("form", "new_from_pool"),
    [(AttentionForm.MHA_CHUNKED_KV, False), (AttentionForm.MHA_ONE_SHOT, True)],
    ids=lambda value: getattr(value, "name", str(value)),
)
@pytest.mark.parametrize("name", list(BACKENDS))
@given(data=st.data())
def test_fp8_cache_expanded(
    name: str, form: AttentionForm, new_from_pool: bool, data: st.DataObject
) -> None:
    """A prefix that is expanded from an e4m3 cache is the dequantised one."""
    world = world_of(data, name, FP8)
    shape = data.draw(compositions())
    one_pass = world.pass_of(ForwardMode.EXTEND, shape.prefix_lens, shape.q_lens)
    out = one_pass.run(BACKENDS[name](world.runner), form, capacity=shape.capacity)
    from_pool = new_from_pool and any(shape.prefix_lens)
    expected = one_pass.expected(prefix_from_pool=True, new_from_pool=from_pool)
    assert relative_error(out, expected) <= 1e-5
