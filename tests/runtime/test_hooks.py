"""What the hooks do at the edges: idle ranks, empty batches, padding, bad input."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
import torch

from mla_guard import HookContractError, contract_of
from mla_runtime import (
    AttentionBackend,
    AttentionForm,
    CuteDslMLABackend,
    EngineSettings,
    FlashInferMLAAttnBackend,
    ForwardBatch,
    ForwardMode,
    MlaModelConfig,
    TokenspeedMLABackend,
    TorchMLABackend,
    TRTLLMMLABackend,
    TRTLLMMLAMultiStepDraftBackend,
    create_draft_backend,
)
from mla_runtime.batch import VerifyInput
from mla_runtime.create import BACKENDS, DRAFT_BACKENDS
from mla_runtime.dense_reference import relative_error
from mla_runtime.rope import cos_sin_cache_of, rotate
from tests.runtime.world import FP8, SMALL, Pass, World

SPECULATIVE = [ForwardMode.TARGET_VERIFY, ForwardMode.DRAFT_EXTEND_V2]


def world_for(name: str) -> World:
    return World(kv_dtype=FP8 if name == "tokenspeed_mla" else None)


def expected_of(one_pass: Pass) -> torch.Tensor:
    fp8 = one_pass.world.kv_dtype is not None
    return one_pass.expected_of_fp8_query() if fp8 else one_pass.expected()


@pytest.mark.parametrize("name", BACKENDS)
def test_an_idle_rank_without_rows(name: str) -> None:
    world = world_for(name)
    backend = BACKENDS[name](world.runner)
    batch = ForwardBatch.idle()
    backend.init_forward_metadata(batch)
    q = torch.zeros(0, 4 * 40)
    out = backend.forward(q, None, None, world.core.absorbed, batch)
    assert isinstance(out, torch.Tensor)
    assert out.shape == (0, 4 * 32)


@pytest.mark.parametrize("name", BACKENDS)
def test_an_idle_rank_with_padding_rows_plans_a_decode(name: str) -> None:
    world = world_for(name)
    backend = BACKENDS[name](world.runner)
    batch = ForwardBatch.decode([0, 0], [1, 1], [0, 0])
    batch.forward_mode = ForwardMode.IDLE
    backend.init_forward_metadata(batch)
    out = backend.forward(torch.zeros(2, 160), None, None, world.core.absorbed, batch)
    assert isinstance(out, torch.Tensor)
    assert out.shape == (2, 4 * 32)


@pytest.mark.parametrize("mode", [ForwardMode.DECODE, ForwardMode.EXTEND, *SPECULATIVE])
@pytest.mark.parametrize("name", BACKENDS)
def test_a_batch_without_requests(name: str, mode: ForwardMode) -> None:
    world = world_for(name)
    backend = BACKENDS[name](world.runner)
    batch = (
        world.batch(mode, [], [], [], [])
        if mode is not ForwardMode.TARGET_VERIFY
        else (ForwardBatch.target_verify([], [], 3, []))
    )
    backend.init_forward_metadata(batch)
    out = backend.forward(torch.zeros(0, 160), None, None, world.core.absorbed, batch)
    assert isinstance(out, torch.Tensor)
    assert out.shape == (0, 4 * 32)


@pytest.mark.parametrize("mode", [ForwardMode.DECODE, *SPECULATIVE])
@pytest.mark.parametrize("name", BACKENDS)
def test_padding_after_the_plan_is_planned_again(name: str, mode: ForwardMode) -> None:
    """Data-parallel padding grows the batch after ``init_forward_metadata`` saw it."""
    world = world_for(name)
    queries = 1 if mode is ForwardMode.DECODE else 2
    one_pass = world.pass_of(mode, [5, 40], [queries] * 2)
    backend = BACKENDS[name](world.runner)
    grown = one_pass.batch
    small = replace(
        grown,
        batch_size=1,
        req_pool_indices=grown.req_pool_indices[:1],
        seq_lens=grown.seq_lens[:1],
        seq_lens_cpu=None if grown.seq_lens_cpu is None else grown.seq_lens_cpu[:1],
        extend_seq_lens=None if grown.extend_seq_lens is None else grown.extend_seq_lens[:1],
        extend_prefix_lens=None
        if grown.extend_prefix_lens is None
        else grown.extend_prefix_lens[:1],
        extend_seq_lens_cpu=[queries],
        extend_prefix_lens_cpu=[5],
    )
    backend.init_forward_metadata(small)
    out = one_pass.run(backend, AttentionForm.MLA, plan=False)
    assert relative_error(out, expected_of(one_pass)) <= 1e-5


@pytest.mark.parametrize("name", BACKENDS)
def test_padding_rows_of_one_key_do_not_disturb_the_others(name: str) -> None:
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.DECODE, [5, 40], [1, 1])
    batch = one_pass.batch
    padded = ForwardBatch.decode(
        [*batch.req_pool_indices.tolist(), 0, 0],
        [*batch.seq_lens.tolist(), 1, 1],
        [*batch.out_cache_loc.tolist(), 0, 0],
    )
    rows = [one_pass.q_nope, one_pass.q_pe, one_pass.latent, one_pass.k_pe]
    q_nope, q_pe, latent, k_pe = (torch.cat([r, torch.zeros_like(r)]) for r in rows)
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(padded)
    out = world.core.attend(
        AttentionForm.MLA, backend, padded, world.heads, q_nope, q_pe, latent, k_pe
    )
    assert relative_error(out[:2], expected_of(one_pass)) <= 1e-5
    assert bool(torch.isfinite(out).all())


@pytest.mark.parametrize("name", BACKENDS)
def test_without_host_mirrors_the_numbers_are_the_same(name: str) -> None:
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.DECODE, [5, 40], [1, 1])
    one_pass.batch.seq_lens_cpu = None
    out = one_pass.run(BACKENDS[name](world.runner))
    assert relative_error(out, expected_of(one_pass)) <= 1e-5


@pytest.mark.parametrize("combined", [False, True], ids=["split", "combined"])
@pytest.mark.parametrize("name", BACKENDS)
def test_query_and_key_are_taken_split_or_combined(name: str, combined: bool) -> None:
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.DECODE, [5, 40], [1, 1])
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(one_pass.batch)
    q, latent = world.heads.absorb(one_pass.q_nope), one_pass.latent[:, None]
    k_pe = one_pass.k_pe[:, None]
    if combined:
        out = backend.forward(
            torch.cat([q, one_pass.q_pe], -1).flatten(1),
            torch.cat([latent, k_pe], -1),
            latent,
            world.core.absorbed,
            one_pass.batch,
        )
    else:
        out = backend.forward(
            q.reshape(2, -1),
            latent,
            latent,
            world.core.absorbed,
            one_pass.batch,
            q_rope=one_pass.q_pe,
            k_rope=k_pe,
        )
    assert isinstance(out, torch.Tensor)
    values = world.heads.values(out.view(2, 4, -1))
    assert relative_error(values, expected_of(one_pass)) <= 1e-5


@pytest.mark.parametrize("name", BACKENDS)
def test_expanded_heads_are_taken_split_or_combined(name: str) -> None:
    """The rope part of a key comes once for all heads, or for each of them."""
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.EXTEND, [0, 0], [5, 3])
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(one_pass.batch)
    k_nope, v = world.heads.expand(one_pass.latent)
    shared, layer = one_pass.k_pe[:, None], world.core.multi_head
    per_head = shared.expand(-1, 4, -1).contiguous()
    for k_rope in (shared, per_head, per_head.flatten(1)):
        out = backend.forward(
            one_pass.q_nope.flatten(1),
            k_nope.flatten(1),
            v.flatten(1),
            layer,
            one_pass.batch,
            save_kv_cache=False,
            q_rope=one_pass.q_pe.flatten(1),
            k_rope=k_rope,
        )
        assert isinstance(out, torch.Tensor)
        assert one_pass.error(out.view(8, 4, 12)) <= 1e-5


@pytest.mark.parametrize("name", BACKENDS)
def test_expanded_heads_are_needed_and_must_be_those_of_the_plan(name: str) -> None:
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.EXTEND, [0], [2])
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(one_pass.batch)
    q = torch.zeros(2, 160)
    with pytest.raises(ValueError, match="got None"):
        backend.forward(q, None, None, world.core.multi_head, one_pass.batch)
    k = torch.zeros(2, 1, 40)
    with pytest.raises(ValueError, match=r"head_dim=40.*planned with 24 and 12"):
        backend.forward(q, k, k, world.core.absorbed, one_pass.batch, save_kv_cache=False)


def test_a_large_query_saturates_in_e4m3() -> None:
    world = world_for("tokenspeed_mla")
    one_pass = world.pass_of(ForwardMode.DECODE, [5], [1])
    one_pass.q_nope = one_pass.q_nope * 1e4
    out = one_pass.run(BACKENDS["tokenspeed_mla"](world.runner))
    assert bool(torch.isfinite(out).all())


def test_save_kv_cache_false_writes_nothing() -> None:
    world = World()
    one_pass = world.pass_of(ForwardMode.DECODE, [5], [1])
    backend = TorchMLABackend(world.runner)
    backend.init_forward_metadata(one_pass.batch)
    before = world.pool.get_key_buffer(world.layer_id).clone()
    backend.forward(
        torch.zeros(1, 160),
        one_pass.latent[:, None],
        None,
        world.core.absorbed,
        one_pass.batch,
        save_kv_cache=False,
        k_rope=one_pass.k_pe[:, None],
    )
    assert torch.equal(world.pool.get_key_buffer(world.layer_id), before)


@pytest.mark.parametrize("mode", [ForwardMode.DECODE, *SPECULATIVE])
@pytest.mark.parametrize("neox", [False, True])
def test_trtllm_rotates_what_the_engine_left_unrotated(mode: ForwardMode, neox: bool) -> None:
    world = World()
    queries = 1 if mode is ForwardMode.DECODE else 3
    one_pass = world.pass_of(mode, [5, 40], [queries] * 2)
    positions = one_pass.batch.positions
    assert positions is not None
    cache = cos_sin_cache_of(8, 256)
    raw_q, raw_k = one_pass.q_pe, one_pass.k_pe
    one_pass.q_pe = rotate(raw_q, positions, cache, neox)
    one_pass.k_pe = rotate(raw_k[:, None], positions, cache, neox)[:, 0]
    for request in (0, 1):
        rows = slice(request * queries, (request + 1) * queries)
        world.k_pe[request][-queries:] = one_pass.k_pe[rows]
    backend = TRTLLMMLABackend(world.runner)
    backend.init_forward_metadata(one_pass.batch)
    out = backend.forward(
        world.heads.absorb(one_pass.q_nope),
        one_pass.latent[:, None],
        None,
        world.core.absorbed,
        one_pass.batch,
        q_rope=raw_q,
        k_rope=raw_k[:, None],
        cos_sin_cache=cache,
        is_neox=neox,
    )
    assert isinstance(out, torch.Tensor)
    values = world.heads.values(out.view(out.shape[0], 4, -1))
    assert one_pass.error(values) <= 1e-5


@pytest.mark.parametrize("rope", ["split", "combined"])
@pytest.mark.parametrize("chunks", [True, False], ids=["own prefill", "the parent's prefill"])
@pytest.mark.parametrize("mode", [ForwardMode.DECODE, ForwardMode.EXTEND])
def test_trtllm_applies_llama_4_scaling_to_the_query(
    mode: ForwardMode, chunks: bool, rope: str
) -> None:
    world = World(settings=EngineSettings(disable_chunked_prefix_cache=not chunks))
    prefix = [5, 40] if mode is ForwardMode.DECODE or not chunks else [0, 0]
    one_pass = world.pass_of(mode, prefix, [1, 1])
    backend = TRTLLMMLABackend(world.runner)
    backend.init_forward_metadata(one_pass.batch)
    factor = torch.tensor([[[0.5]], [[2.0]]])
    expanded = mode is ForwardMode.EXTEND and chunks
    if expanded:
        layer, q = world.core.multi_head, one_pass.q_nope
        k_nope, v = world.heads.expand(one_pass.latent)
        k = torch.cat([k_nope, one_pass.k_pe[:, None].expand(-1, 4, -1)], -1)
    else:
        layer, q = world.core.absorbed, world.heads.absorb(one_pass.q_nope)
        k, v = torch.cat([one_pass.latent, one_pass.k_pe], -1)[:, None], one_pass.latent[:, None]
    if rope == "combined":
        q = torch.cat([q, one_pass.q_pe], -1)
    out = backend.forward(
        q.reshape(2, -1),
        k,
        v,
        layer,
        one_pass.batch,
        save_kv_cache=not expanded,
        q_rope=None if rope == "combined" else one_pass.q_pe.flatten(1),
        llama_4_scaling=factor,
    )
    one_pass.q_nope, one_pass.q_pe = one_pass.q_nope * factor, one_pass.q_pe * factor
    assert isinstance(out, torch.Tensor)
    out = out.view(2, 4, -1)
    assert one_pass.error(out if expanded else world.heads.values(out)) <= 1e-5


@pytest.mark.parametrize("name", BACKENDS)
def test_the_plan_must_come_first(name: str) -> None:
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.DECODE, [5], [1])
    backend = BACKENDS[name](world.runner)
    with pytest.raises(HookContractError, match="nothing is planned for a DECODE batch"):
        backend.forward(torch.zeros(1, 160), None, None, world.core.absorbed, one_pass.batch)


@pytest.mark.parametrize(
    ("planned", "called"),
    [(ForwardMode.EXTEND, ForwardMode.DECODE), (ForwardMode.DECODE, ForwardMode.EXTEND)],
    ids=["decode after a prefill's plan", "prefill after a decode's plan"],
)
@pytest.mark.parametrize("name", BACKENDS)
def test_the_plan_of_another_phase_is_refused(
    name: str, planned: ForwardMode, called: ForwardMode
) -> None:
    world = world_for(name)
    one_pass = world.pass_of(planned, [0], [1])
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(one_pass.batch)
    other = world.batch(called, [0], [0], [1], [64])
    with pytest.raises(HookContractError, match=f"is planned for a {called.name} batch"):
        backend.forward(torch.zeros(1, 160), None, None, world.core.absorbed, other)


@pytest.mark.parametrize("name", ["trtllm_mla", "cutedsl_mla", "tokenspeed_mla"])
def test_a_stale_speculative_plan_is_refused(name: str) -> None:
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.TARGET_VERIFY, [5, 9], [3, 3])
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(one_pass.batch)
    q = torch.zeros(8, 160)
    with pytest.raises(ValueError, match=r"q.shape\[0\] \(8\) does not match the 6 query tokens"):
        backend.forward(q, None, None, world.core.absorbed, one_pass.batch)


def test_rotation_needs_what_it_rotates() -> None:
    world = World()
    one_pass = world.pass_of(ForwardMode.DECODE, [5], [1])
    backend = TRTLLMMLABackend(world.runner)
    backend.init_forward_metadata(one_pass.batch)
    with pytest.raises(ValueError, match=r"\['q_rope', 'k_rope'\] must not be"):
        backend.forward(
            torch.zeros(1, 160),
            None,
            None,
            world.core.absorbed,
            one_pass.batch,
            cos_sin_cache=cos_sin_cache_of(8, 16),
        )


@pytest.mark.parametrize("name", BACKENDS)
def test_a_draft_tree_is_refused(name: str) -> None:
    world = world_for(name)
    batch = world.pass_of(ForwardMode.TARGET_VERIFY, [5], [4]).batch
    batch.spec_info = VerifyInput(4, topk=2)
    backend = BACKENDS[name](world.runner)
    with pytest.raises(ValueError, match=r"topk=2.*expected topk=1"):
        backend.init_forward_metadata(batch)
    with pytest.raises(ValueError, match=r"topk=4.*expected topk=1"):
        create_draft_backend(name, world.runner, 4, 3)


def test_the_steps_of_a_trtllm_draft_take_the_library_that_is_named() -> None:
    draft = TRTLLMMLAMultiStepDraftBackend(World().runner, 1, 3, "cute-dsl")
    assert [getattr(b, "backend", None) for b in draft.attn_backends] == ["cute-dsl"] * 2
    with pytest.raises(ValueError, match="backend='fa3'"):
        TRTLLMMLAMultiStepDraftBackend(World().runner, 1, 3, "fa3")


@pytest.mark.parametrize("name", DRAFT_BACKENDS)
def test_a_draft_of_one_step_needs_no_backend(name: str) -> None:
    world = world_for(name)
    draft = create_draft_backend(name, world.runner, 1, 1)
    batch = world.batch(ForwardMode.DECODE, [0], [0], [1], [0])
    draft.init_cuda_graph_state(4, 4)
    draft.init_forward_metadata(batch)
    draft.init_forward_metadata_out_graph(batch, in_capture=True)
    assert draft.attn_backends == []
    assert draft.max_context_len == SMALL.context_len
    with pytest.raises(ValueError, match="speculative_num_steps=0"):
        create_draft_backend(name, world.runner, 1, 0)


@pytest.mark.parametrize(
    ("backend_class", "page_size", "kv_dtype", "words"),
    [
        (TRTLLMMLABackend, 16, None, r"needs page_size in \[32, 64\], got page_size=16"),
        (CuteDslMLABackend, 1, None, r"needs page_size in \[2, .*, 128\], got page_size=1"),
        (TokenspeedMLABackend, 1, FP8, r"got page_size=1"),
        (TokenspeedMLABackend, 64, None, "needs kv_cache_dtype torch.float8_e4m3fn, got"),
    ],
)
def test_pools_that_a_kernel_does_not_read_are_refused(
    backend_class: type[TRTLLMMLABackend],
    page_size: int,
    kv_dtype: torch.dtype | None,
    words: str,
) -> None:
    world = World(page_size=page_size, kv_dtype=kv_dtype, pages=64)
    with pytest.raises(ValueError, match=words):
        backend_class(world.runner)


def test_an_unknown_kernel_library_is_refused() -> None:
    with pytest.raises(ValueError, match="backend='xqa'; expected 'trtllm-gen'"):
        TRTLLMMLABackend(World().runner, backend="xqa")


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({"logit_cap": 30.0}, r"logit_cap=30.0.*expected 0.0"),
        ({"scaling": 0.5}, r"scaling=0.5.*model's scaling"),
        ({"head_dim": 24, "v_head_dim": 12}, "absorbed form, 40 and 32"),
    ],
    ids=["soft cap", "scaling", "expanded"],
)
@pytest.mark.parametrize("name", BACKENDS)
def test_layers_that_the_plan_does_not_fit_are_refused(
    name: str, layer: dict[str, float], words: str
) -> None:
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.DECODE, [5], [1])
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(one_pass.batch)
    other = replace(world.core.absorbed, **layer)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=words):
        backend.forward(torch.zeros(1, 160), None, None, other, one_pass.batch)


@pytest.mark.parametrize("name", BACKENDS)
def test_expanded_keys_are_not_cached(name: str) -> None:
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.EXTEND, [0], [2])
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(one_pass.batch)
    q, k, v = torch.zeros(2, 96), torch.zeros(2, 96), torch.zeros(2, 48)
    with pytest.raises(ValueError, match="pass save_kv_cache=False"):
        backend.forward(q, k, v, world.core.multi_head, one_pass.batch)


@pytest.mark.parametrize("name", ["torch", "flashinfer"])
def test_chunks_must_be_cut_before_they_are_planned(name: str) -> None:
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.EXTEND, [40], [2])
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(one_pass.batch)
    with pytest.raises(ValueError, match="prepare_chunked_prefix_cache_info"):
        backend.init_mha_chunk_metadata(one_pass.batch)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_chunk_that_was_not_cut_is_refused(name: str) -> None:
    world = world_for(name)
    one_pass = world.pass_of(ForwardMode.EXTEND, [40], [2])
    batch = one_pass.batch
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(batch)
    batch.prepare_chunked_prefix_cache_info(world.core.req_to_token)
    backend.init_mha_chunk_metadata(batch)
    batch.set_attn_attend_prefix_cache(True)
    batch.set_prefix_chunk_idx(7)
    q, k, v = torch.zeros(2, 96), torch.zeros(40, 96), torch.zeros(40, 48)
    with pytest.raises(ValueError, match="prefix_chunk_idx=7"):
        backend.forward(q, k, v, world.core.multi_head, batch, save_kv_cache=False)


def test_extend_lengths_are_needed() -> None:
    world = World()
    batch = world.pass_of(ForwardMode.EXTEND, [0], [2]).batch
    batch.extend_seq_lens_cpu = None
    with pytest.raises(ValueError, match="extend_seq_lens_cpu=None"):
        TorchMLABackend(world.runner).init_forward_metadata(batch)


def test_verify_needs_its_draft() -> None:
    world = World()
    batch = world.pass_of(ForwardMode.TARGET_VERIFY, [0], [2]).batch
    batch.spec_info = None
    with pytest.raises(ValueError, match=r"spec_info.draft_token_num"):
        TorchMLABackend(world.runner).init_forward_metadata(batch)


@pytest.mark.parametrize("hook", ["init_cuda_graph_state", "init_mha_chunk_metadata"])
def test_a_base_backend_names_the_hook_that_it_lacks(hook: str) -> None:
    class Eager(AttentionBackend):
        """Everything but graphs and chunks."""

        forward_decode = TorchMLABackend.forward_decode
        forward_extend = TorchMLABackend.forward_extend

    arguments = (1, 1) if hook == "init_cuda_graph_state" else (ForwardBatch.idle(),)
    with pytest.raises(NotImplementedError, match="Eager does not"):
        getattr(Eager(), hook)(*arguments)


def test_heads_are_split_over_the_ranks_of_attention() -> None:
    world = World(config=MlaModelConfig(num_attention_heads=16, context_len=64), page_size=64)
    world.runner.tp_size = 4
    assert TorchMLABackend(world.runner).shape.num_heads == 4
    world.runner.tp_size = 3
    with pytest.raises(ValueError, match="num_attention_heads=16 does not divide"):
        TorchMLABackend(world.runner)


def test_every_hook_keeps_the_order_of_its_parameters() -> None:
    """Engines call by position: an override may add parameters, after the contract's."""
    for name, declared in contract_of(AttentionBackend).hooks.items():
        promised = [p.name for p in declared.shape if p.kind <= 1]
        for backend_class in BACKENDS.values():
            own = [
                n
                for n, p in inspect.signature(getattr(backend_class, name)).parameters.items()
                if p.kind <= 1 and n != "self"
            ]
            assert own[: len(promised)] == promised, (backend_class.__name__, name)


def test_constructors_keep_sglangs_order() -> None:
    wanted = ["model_runner", "skip_prefill", "kv_indptr_buf", "q_indptr_decode_buf"]
    for backend_class in BACKENDS.values():
        own = list(inspect.signature(backend_class).parameters)
        assert own[:4] == wanted, backend_class.__name__
    assert list(inspect.signature(TRTLLMMLABackend).parameters)[4] == "backend"
    for draft_class in DRAFT_BACKENDS.values():
        own = list(inspect.signature(draft_class).parameters)
        assert own[:3] == ["model_runner", "topk", "speculative_num_steps"]


def test_the_fill_value_of_padding_lengths_is_one_key() -> None:
    for name, backend_class in BACKENDS.items():
        assert backend_class(world_for(name).runner).get_cuda_graph_seq_len_fill_value() == 1


def test_buffers_are_shared_where_they_are_given() -> None:
    world = World()
    kv_indptr = torch.zeros(world.requests + 1, dtype=torch.int32)
    q_indptr = torch.arange(world.requests + 1, dtype=torch.int32)
    backend = FlashInferMLAAttnBackend(world.runner, False, kv_indptr, q_indptr)
    backend.init_forward_metadata(world.pass_of(ForwardMode.DECODE, [5, 40], [1, 1]).batch)
    assert kv_indptr[:3].tolist() == [0, 1, 3]
    assert backend.q_indptr_decode is q_indptr
