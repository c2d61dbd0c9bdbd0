"""Faults that engines shipped, each by name; every one was seen in a release."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from mla_guard import HookContractError
from mla_runtime import (
    AttentionForm,
    CuteDslMLABackend,
    FlashInferMLAAttnBackend,
    ForwardMode,
    TokenspeedMLABackend,
    TorchMLABackend,
    TRTLLMMLABackend,
    captured_prefill,
    create_draft_backend,
)
from mla_runtime.create import BACKENDS
from mla_runtime.dense_reference import relative_error
from mla_runtime.kernels import lse, softmax
from tests.runtime.test_adapters import EVEN, LATENT_512, TWELVE, blocks, planned
from tests.runtime.world import FP8, World

if TYPE_CHECKING:
    from mla_runtime import AttentionBackend

CHILDREN = [TRTLLMMLABackend, CuteDslMLABackend, TokenspeedMLABackend]


def world_for(name: str, **settings: object) -> World:
    kv_dtype = FP8 if name == "tokenspeed_mla" else None
    world = World(kv_dtype=kv_dtype)
    world.runner.server_args = replace(world.settings, **settings)  # type: ignore[arg-type]
    return world


@pytest.mark.parametrize("name", BACKENDS)
def test_draft_worker_with_skip_prefill_decodes(name: str) -> None:
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.DECODE, [5, 40], [1, 1])
    out = one_pass.run(BACKENDS[name](world.runner, skip_prefill=True))
    expected = one_pass.expected_of_fp8_query() if world.kv_dtype else one_pass.expected()
    assert relative_error(out, expected) <= 1e-5


@pytest.mark.parametrize(
    "mode", [ForwardMode.EXTEND, ForwardMode.TARGET_VERIFY, ForwardMode.DRAFT_EXTEND_V2]
)
@pytest.mark.parametrize("name", BACKENDS)
def test_draft_worker_with_skip_prefill_refuses_by_name(name: str, mode: ForwardMode) -> None:
    """Never an ``AttributeError`` for something that the flag kept from being created."""
    world = world_for(name)
    one_pass = world.pass_of(mode, [5, 40], [3, 3])
    backend = BACKENDS[name](world.runner, skip_prefill=True)
    one_pass.batch.num_prefix_chunks = 0
    for call in (
        lambda: backend.init_forward_metadata(one_pass.batch),
        lambda: backend.init_mha_chunk_metadata(one_pass.batch),
        lambda: one_pass.run(backend, AttentionForm.MLA, plan=False),
    ):
        with pytest.raises(HookContractError, match="skip_prefill") as refused:
            call()
        assert not isinstance(refused.value, AttributeError)


@pytest.mark.parametrize("name", BACKENDS)
def test_draft_worker_refuses_chunk_metadata_again_once_the_guard_is_gone(name: str) -> None:
    world = world_for(name)
    backend = BACKENDS[name](world.runner, skip_prefill=True)
    raw = type(backend).init_mha_chunk_metadata
    batch = world.pass_of(ForwardMode.EXTEND, [5], [3]).batch
    for _ in range(3):
        with pytest.raises(HookContractError, match="skip_prefill"):
            raw(backend, batch)


@pytest.mark.parametrize("name", ["trtllm_mla", "cutedsl_mla", "tokenspeed_mla"])
def test_chunked_prefix_disabled_while_the_backend_falls_back_to_its_parent(name: str) -> None:
    """SGLang 0.5.13: the fallback read ``mha_chunk_kv_cache``, which the flag had not created."""
    world = world_for(name, disable_chunked_prefix_cache=True)
    one_pass = world.pass_of(ForwardMode.EXTEND, [40, 0, 64], [7, 3, 1])
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(one_pass.batch)
    backend.init_mha_chunk_metadata(one_pass.batch)
    out = one_pass.run(backend, plan=False)
    stored = world.kv_dtype is not None
    expected = one_pass.expected(prefix_from_pool=stored, new_from_pool=stored)
    assert relative_error(out, expected) <= 1e-5


@pytest.mark.parametrize("name", BACKENDS)
def test_chunk_metadata_under_every_flag_raises_nothing(name: str) -> None:
    for flags in (
        {"disable_chunked_prefix_cache": True},
        {"flashinfer_mla_disable_ragged": True},
        {"disaggregation_mode": "decode"},
    ):
        world = world_for(name, **flags)
        one_pass = world.pass_of(ForwardMode.EXTEND, [40, 0], [7, 3])
        backend = BACKENDS[name](world.runner)
        backend.init_forward_metadata(one_pass.batch)
        backend.init_mha_chunk_metadata(one_pass.batch)
        backend.init_mha_chunk_metadata(one_pass.batch, disable_flashinfer_ragged=True)
        assert backend.preferred_form(one_pass.batch) is AttentionForm.MLA, flags


@pytest.mark.parametrize("name", ["trtllm_mla", "cutedsl_mla", "tokenspeed_mla", "torch"])
def test_captured_prefill_takes_the_paged_kernel(name: str) -> None:
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.EXTEND, [0, 0], [7, 3])
    backend = BACKENDS[name](world.runner)
    with captured_prefill():
        out = one_pass.run(backend)
        assert backend.preferred_form(one_pass.batch) is AttentionForm.MLA
    stored = world.kv_dtype is not None
    assert relative_error(out, one_pass.expected(new_from_pool=stored)) <= 1e-5


@pytest.mark.parametrize("child", CHILDREN, ids=lambda c: c.__name__)
def test_parent_wrappers_are_all_present_on_every_child(child: type[TRTLLMMLABackend]) -> None:
    """SGLang, between releases: the child skipped the parent's buffers and made none itself."""
    world = World(kv_dtype=FP8)
    parent = vars(FlashInferMLAAttnBackend(world.runner))
    for skip_prefill in (False, True):
        own = vars(child(world.runner, skip_prefill=skip_prefill))
        for attribute, value in parent.items():
            assert attribute in own, attribute
            if attribute.endswith(("wrapper", "wrapper_paged", "_verify", "_ragged", "_cache")):
                assert type(own[attribute]) is type(value), attribute


@pytest.mark.parametrize("name", BACKENDS)
def test_the_same_attributes_exist_whatever_the_flags(name: str) -> None:
    default = set(vars(BACKENDS[name](world_for(name).runner)))
    for flags in (
        {"disable_chunked_prefix_cache": True},
        {"flashinfer_mla_disable_ragged": True},
        {"disaggregation_mode": "decode"},
        {"speculative_num_draft_tokens": 4},
    ):
        for skip_prefill in (False, True):
            runner = world_for(name, **flags).runner
            assert set(vars(BACKENDS[name](runner, skip_prefill=skip_prefill))) == default, flags


def test_narrowed_override_of_init_mha_chunk_metadata() -> None:
    """SGLang 0.5.13 to 0.5.15: the override took ``forward_batch`` alone."""
    for name, backend_class in BACKENDS.items():
        world = world_for(name)
        one_pass = world.pass_of(ForwardMode.EXTEND, [0, 40], [3, 7])
        backend = backend_class(world.runner)
        backend.init_forward_metadata(one_pass.batch)
        one_pass.batch.prepare_chunked_prefix_cache_info(world.core.req_to_token)
        backend.init_mha_chunk_metadata(one_pass.batch, disable_flashinfer_ragged=True)
        backend.init_mha_chunk_metadata(one_pass.batch, True)


@pytest.mark.parametrize("release", ["0.6.18.post1", "0.7.4"])
def test_lse_base_in_the_chunk_merge_of_flashinfer(release: str) -> None:
    """Ragged kernels count in base 2; merged with natural weights the output is 13 % off."""
    world = World(config=EVEN, dtype=torch.bfloat16, seed=3)
    one_pass = world.pass_of(ForwardMode.EXTEND, [60, 90], [8, 5])
    backend = FlashInferMLAAttnBackend(world.runner, kernels=planned(release)[0])
    out = one_pass.run(backend, AttentionForm.MHA_CHUNKED_KV, capacity=80)
    assert one_pass.error(out) <= 1e-2


@pytest.mark.parametrize("name", ["trtllm-gen", "cute-dsl"])
def test_lse_base_in_the_chunk_merge_of_trtllm(name: str) -> None:
    world = World(config=EVEN, dtype=torch.bfloat16, seed=3)
    one_pass = world.pass_of(ForwardMode.EXTEND, [60, 90], [8, 5])
    backend = TRTLLMMLABackend(world.runner, kernels=planned()[0], decode_kernels=blocks(name)[0])
    assert one_pass.error(one_pass.run(backend, capacity=80)) <= 1e-2


def test_merging_base2_with_natural_weights_is_as_wrong_as_reported() -> None:
    """What the two tests above would let through, measured: far beyond their tolerance."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(n, 4, 64, generator=generator).double() for n in (32, 100, 100))
    whole, _ = softmax.attend(q, k, v, 0.125, causal=False)
    part_a, lse_a = softmax.attend(q, k[:70], v[:70], 0.125, causal=False)
    part_b, lse_b = softmax.attend(q, k[70:], v[70:], 0.125, causal=False)
    right, _ = softmax.merge_state(part_a, lse_a, part_b, lse_b)
    wrong, _ = softmax.merge_state(part_a, lse.to_base2(lse_a), part_b, lse.to_base2(lse_b))
    assert relative_error(right, whole) <= 1e-12
    assert 0.05 < relative_error(wrong, whole) < 0.3


@pytest.mark.parametrize("kernels", ["flashinfer", "trtllm-gen", "cute-dsl"])
def test_zero_kv_rows(kernels: str) -> None:
    """A chunk in which a request has no key: -5e4 from one kernel, stale garbage from another."""
    world = World(config=EVEN, dtype=torch.bfloat16)
    one_pass = world.pass_of(ForwardMode.EXTEND, [0, 90, 3, 0], [8, 5, 1, 2])
    backend: FlashInferMLAAttnBackend
    if kernels == "flashinfer":
        backend = FlashInferMLAAttnBackend(world.runner, kernels=planned()[0])
    else:
        backend = TRTLLMMLABackend(
            world.runner, kernels=planned()[0], decode_kernels=blocks(kernels)[0]
        )
    out = one_pass.run(backend, AttentionForm.MHA_CHUNKED_KV, capacity=40)
    assert one_pass.error(out) <= 1e-2


def test_two_empty_states_merge_to_an_empty_one() -> None:
    zero, nothing = torch.zeros(3, 2, 4), torch.full((3, 2), float("-inf"))
    for kernels in (planned()[0], TorchMLABackend(World().runner).kernels):
        out, merged = kernels.merge_state(zero.bfloat16(), nothing, zero.bfloat16(), nothing)
        assert torch.equal(out, zero.bfloat16())
        assert torch.equal(merged, nothing)


@pytest.mark.parametrize("replayed", [False, True], ids=["eager", "replay"])
@pytest.mark.parametrize("name", BACKENDS)
def test_the_draft_steps_kv_lengths(name: str, replayed: bool) -> None:
    """SGLang's replay plans every step with the lengths before the draft."""
    world = world_for(name)
    prompts, steps = [5, 31, 64], 4
    draft = create_draft_backend(name, world.runner, 1, steps)
    first = world.pass_of(ForwardMode.DECODE, [n - 1 for n in prompts], [1] * 3)
    for request, length in enumerate(prompts):
        world.grow(request, length + steps - 1)
    if replayed:
        short = world.batch(ForwardMode.DECODE, [0, 1, 2], [0] * 3, [1] * 3, [0] * 3)
        draft.init_cuda_graph_state(4, 4)
        draft.init_forward_metadata_out_graph(short, in_capture=True)
        draft.init_forward_metadata_in_graph(short)
        draft.init_forward_metadata_out_graph(first.batch)
    else:
        draft.init_forward_metadata(first.batch)
    first.run(TorchMLABackend(world.runner))
    assert len(draft.attn_backends) == steps - 1
    for step, backend in enumerate(draft.attn_backends):
        one_pass = world.next_decode([n + step for n in prompts])
        out = one_pass.run(backend, plan=False)
        expected = one_pass.expected_of_fp8_query() if world.kv_dtype else one_pass.expected()
        assert relative_error(out, expected) <= 1e-5, step


@pytest.mark.parametrize("release", ["0.6.18.post1", "0.7.4"])
@pytest.mark.parametrize("mode", [ForwardMode.TARGET_VERIFY, ForwardMode.EXTEND])
def test_causal_tile_rounding_with_12_heads(mode: ForwardMode, release: str) -> None:
    world = World(config=TWELVE, dtype=torch.bfloat16)
    # 22 tokens of 12 heads fill two tiles of 128 rows and cut a token at each end.
    one_pass = world.pass_of(mode, [0, 31, 70], [22, 22, 22])
    backend = FlashInferMLAAttnBackend(world.runner, kernels=planned(release)[0])
    assert one_pass.error(one_pass.run(backend, AttentionForm.MLA)) <= 1e-2


@pytest.mark.parametrize("name", BACKENDS)
def test_a_stale_plan_is_refused_in_the_words_of_the_incident(name: str) -> None:
    """A hybrid wrapper without the hook left a plan for 800 tokens before 8,218 (SGLang 0.5.12)."""
    world = world_for(name)
    planned_for = world.pass_of(ForwardMode.EXTEND, [0], [80])
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(planned_for.batch)
    q, k, v = torch.zeros(90, 4 * 24), torch.zeros(90, 4 * 24), torch.zeros(90, 4 * 12)
    with pytest.raises(
        ValueError, match=r"q.shape\[0\] \(90\) does not match qo_indptr\[-1\] \(80\)"
    ):
        backend.forward(q, k, v, world.core.multi_head, planned_for.batch, save_kv_cache=False)


@pytest.mark.parametrize("name", ["trtllm_mla", "cutedsl_mla", "tokenspeed_mla"])
def test_uneven_draft_queries_whose_sum_divides_by_the_batch(name: str) -> None:
    """SGLang 0.5.23 reshapes [3, 1] as [2, 2]: four tokens divide by two requests."""
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.DRAFT_EXTEND_V2, [5, 40], [3, 1])
    out = one_pass.run(BACKENDS[name](world.runner))
    expected = one_pass.expected_of_fp8_query() if world.kv_dtype else one_pass.expected()
    assert relative_error(out, expected) <= 1e-5


def test_fp8_cache_is_not_cast_as_a_whole() -> None:
    """SGLang casts the pool per layer and drops the scale; the kernel can read the pool itself."""
    world = World(config=LATENT_512, dtype=torch.bfloat16, kv_dtype=FP8)
    kernels, calls = planned()
    one_pass = world.pass_of(ForwardMode.DECODE, [5, 40], [1, 1])
    one_pass.run(FlashInferMLAAttnBackend(world.runner, kernels=kernels))
    read = calls.of("BatchMLAPagedAttentionWrapper.run")[0]["ckv_cache"]
    assert read.data_ptr() == world.pool.kv_buffer[world.layer_id].data_ptr()
    assert read.dtype == FP8


def guarded_prefill(backend: AttentionBackend, world: World) -> None:
    backend.init_forward_metadata(world.pass_of(ForwardMode.EXTEND, [0, 40], [3, 7]).batch)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_prefill_plan_for_another_number_of_tokens_breaks_the_contract(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_for(name)
    backend = BACKENDS[name](world.runner)
    monkeypatch.setattr(type(backend), "_planned_query_tokens", lambda self: 800)
    with pytest.raises(HookContractError, match="plans_every_extend_token"):
        guarded_prefill(backend, world)
