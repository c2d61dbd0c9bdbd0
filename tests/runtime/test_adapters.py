"""Every adapter, over stand-ins with the libraries' signatures and conventions, against float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from mla_runtime import (
    AttentionForm,
    CuteDslMLABackend,
    FlashInferMLAAttnBackend,
    ForwardMode,
    KernelUnavailableError,
    MlaModelConfig,
    TokenspeedMLABackend,
    TRTLLMMLABackend,
)
from mla_runtime.dense_reference import relative_error
from mla_runtime.kernels.flashinfer_blocks import FlashInferBlockKernels
from mla_runtime.kernels.flashinfer_library import check_version
from mla_runtime.kernels.flashinfer_paged import kernel_heads, paged_backend
from mla_runtime.kernels.flashinfer_planned import FlashInferPlannedKernels, ragged_backend
from mla_runtime.kernels.protocol import GraphBuffers, PagedPlan
from mla_runtime.kernels.softmax import merge_state
from mla_runtime.kernels.tokenspeed_blocks import TokenspeedBlockKernels
from tests.runtime import fake_library
from tests.runtime.signatures import RELEASES
from tests.runtime.world import FP8, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from mla_runtime.kernels.capability import Capability

FLASHINFER = RELEASES["flashinfer-python"]
CPU = torch.device("cpu")
EVEN = MlaModelConfig(
    num_attention_heads=4,
    kv_lora_rank=256,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    context_len=256,
)
TWELVE = MlaModelConfig(
    num_attention_heads=12,
    kv_lora_rank=128,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    context_len=256,
)
LATENT_512 = MlaModelConfig(
    num_attention_heads=4,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    context_len=256,
)
MODES: dict[str, tuple[ForwardMode, list[int], list[int], AttentionForm | None]] = {
    "decode": (ForwardMode.DECODE, [5, 31, 32, 100, 0], [1] * 5, None),
    "extend": (ForwardMode.EXTEND, [0, 0, 0], [5, 1, 33], None),
    "paged extend": (ForwardMode.EXTEND, [0, 7, 64], [5, 1, 33], AttentionForm.MLA),
    "one shot": (ForwardMode.EXTEND, [0, 7, 64], [5, 1, 33], AttentionForm.MHA_ONE_SHOT),
    "chunks": (ForwardMode.EXTEND, [0, 7, 64], [5, 1, 33], AttentionForm.MHA_CHUNKED_KV),
    "verify": (ForwardMode.TARGET_VERIFY, [5, 31, 100], [6] * 3, None),
    "draft extend": (ForwardMode.DRAFT_EXTEND_V2, [5, 31, 100], [1, 3, 2], None),
}


def planned(
    release: str = "0.6.18.post1", capability: Capability = (9, 0)
) -> tuple[FlashInferPlannedKernels, fake_library.Calls]:
    library, calls = fake_library.flashinfer(release)
    return FlashInferPlannedKernels(CPU, library=library, capability=capability), calls


def blocks(
    name: str, release: str = "0.6.18.post1"
) -> tuple[FlashInferBlockKernels, fake_library.Calls]:
    library, calls = fake_library.flashinfer(release)
    kernels = FlashInferBlockKernels(
        CPU,
        "trtllm-gen" if name == "trtllm-gen" else "cute-dsl",
        library=library,
        capability=(10, 0),
        sm_count=lambda: 148,
    )
    return kernels, calls


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("config", [EVEN, TWELVE], ids=["4 heads", "12 heads"])
@pytest.mark.parametrize("release", FLASHINFER)
def test_flashinfer(release: str, config: MlaModelConfig, mode: str) -> None:
    world = World(config=config, dtype=torch.bfloat16)
    kernels, calls = planned(release)
    forward_mode, prefix_lens, q_lens, form = MODES[mode]
    one_pass = world.pass_of(forward_mode, prefix_lens, q_lens)
    backend = FlashInferMLAAttnBackend(world.runner, kernels=kernels)
    assert one_pass.error(one_pass.run(backend, form, capacity=24)) <= 1e-2
    assert calls.made


@pytest.mark.parametrize("mode", ["decode", "paged extend", "verify", "draft extend"])
@pytest.mark.parametrize("release", FLASHINFER)
def test_flashinfer_fp8_cache(release: str, mode: str) -> None:
    """The cache is read as it is stored, with its scale: no cast of the pool per layer."""
    world = World(config=LATENT_512, dtype=torch.bfloat16, kv_dtype=FP8)
    kernels, calls = planned(release)
    forward_mode, prefix_lens, q_lens, form = MODES[mode]
    one_pass = world.pass_of(forward_mode, prefix_lens, q_lens)
    backend = FlashInferMLAAttnBackend(world.runner, kernels=kernels)
    expected = one_pass.expected(prefix_from_pool=True, new_from_pool=True)
    out = one_pass.run(backend, form)
    assert relative_error(out, one_pass.expected(prefix_from_pool=True, new_from_pool=True)) <= 1e-2
    assert relative_error(out, expected) > 0.1, "the pool held no new rows before the pass"
    run = calls.of("BatchMLAPagedAttentionWrapper.run")[-1]
    assert run["ckv_scale"] == run["kpe_scale"] == world.kv_scale


@pytest.mark.parametrize(
    "mode", ["decode", "extend", "chunks", "one shot", "verify", "draft extend"]
)
@pytest.mark.parametrize(
    ("name", "backend_class"), [("trtllm-gen", TRTLLMMLABackend), ("cute-dsl", CuteDslMLABackend)]
)
@pytest.mark.parametrize("release", FLASHINFER)
def test_block_kernels(
    release: str, name: str, backend_class: type[TRTLLMMLABackend], mode: str
) -> None:
    world = World(config=LATENT_512, dtype=torch.bfloat16)
    kernels, calls = blocks(name, release)
    forward_mode, prefix_lens, q_lens, form = MODES[mode]
    one_pass = world.pass_of(forward_mode, prefix_lens, q_lens)
    backend = backend_class(world.runner, kernels=planned(release)[0], decode_kernels=kernels)
    assert one_pass.error(one_pass.run(backend, form, capacity=24)) <= 1e-2
    assert calls.made


@pytest.mark.parametrize("mode", ["decode", "verify", "draft extend"])
@pytest.mark.parametrize("name", ["trtllm-gen", "cute-dsl"])
def test_block_kernels_fp8(name: str, mode: str) -> None:
    world = World(config=LATENT_512, dtype=torch.bfloat16, kv_dtype=FP8)
    forward_mode, prefix_lens, q_lens, _ = MODES[mode]
    one_pass = world.pass_of(forward_mode, prefix_lens, q_lens)
    backend = TRTLLMMLABackend(world.runner, kernels=planned()[0], decode_kernels=blocks(name)[0])
    assert relative_error(one_pass.run(backend), one_pass.expected_of_fp8_query()) <= 1e-2


@pytest.mark.parametrize("mode", ["decode", "verify", "draft extend"])
@pytest.mark.parametrize("release", RELEASES["tokenspeed-mla"])
def test_tokenspeed_decode(release: str, mode: str) -> None:
    world = World(config=LATENT_512, dtype=torch.bfloat16, kv_dtype=FP8)
    library, _ = fake_library.tokenspeed(release)
    kernels = TokenspeedBlockKernels(CPU, library=library, capability=(10, 3))
    forward_mode, prefix_lens, q_lens, _ = MODES[mode]
    one_pass = world.pass_of(forward_mode, prefix_lens, q_lens)
    backend = TokenspeedMLABackend(world.runner, kernels=planned()[0], decode_kernels=kernels)
    assert relative_error(one_pass.run(backend), one_pass.expected_of_fp8_query()) <= 1e-2


@pytest.mark.parametrize("release", RELEASES["tokenspeed-mla"])
def test_tokenspeed_prefill_merges_natural_lse(release: str) -> None:
    """Its prefill kernel reads e4m3 and returns a natural LSE, unlike its decode kernel."""
    library, _ = fake_library.tokenspeed(release)
    kernels = TokenspeedBlockKernels(CPU, library=library, capability=(10, 0))
    q, k, v = (torch.randn(n, 4, d).to(FP8).float() for n, d in ((6, 192), (9, 192), (9, 128)))
    cum_q = torch.tensor([0, 2, 6], dtype=torch.int32)
    cum_kv = torch.tensor([0, 0, 9], dtype=torch.int32)
    out, lse = kernels.prefill(
        q,
        k,
        v,
        cum_seq_lens_q=cum_q,
        cum_seq_lens_kv=cum_kv,
        seq_lens_kv=torch.tensor([0, 9], dtype=torch.int32),
        max_q_len=4,
        max_kv_len=9,
        causal=False,
        sm_scale=0.07,
        has_empty_rows=True,
        return_lse=True,
    )
    scores = torch.einsum("qhd,khd->qhk", q[2:].double(), k.double()) * 0.07
    assert lse is not None
    assert torch.equal(lse[:2], torch.full((2, 4), float("-inf")))
    assert torch.equal(out[:2], torch.zeros(2, 4, 128))
    assert torch.allclose(lse[2:].double(), scores.logsumexp(-1), atol=1e-5)
    expected = torch.einsum("qhk,khd->qhd", scores.softmax(-1), v.double())
    assert relative_error(out[2:], expected) <= 1e-2


@pytest.mark.parametrize("name", ["trtllm-gen", "cute-dsl"])
@pytest.mark.parametrize("release", FLASHINFER)
def test_decode_lse_is_natural_and_empty_rows_are_neutral(release: str, name: str) -> None:
    kernels, _ = blocks(name, release)
    cache = torch.randn(4, 32, 576).bfloat16()
    query = torch.randn(2, 1, 4, 576).bfloat16()
    out, lse = kernels.decode(
        query,
        cache,
        torch.tensor([[1, 2], [-1, -1]], dtype=torch.int32),
        torch.tensor([40, 0], dtype=torch.int32),
        40,
        qk_nope_head_dim=128,
        kv_lora_rank=512,
        sm_scale=0.05,
        kv_scale=1.0,
        out_dtype=torch.bfloat16,
        has_empty_rows=True,
        return_lse=True,
    )
    keys = cache[1:3].flatten(0, 1)[:40].double()
    scores = query[0, 0].double() @ keys.T * 0.05
    assert lse is not None
    assert torch.allclose(lse[0].double(), scores.logsumexp(-1), atol=1e-5)
    assert torch.equal(lse[1], torch.full((4,), float("-inf")))
    assert torch.equal(out[1], torch.zeros(1, 4, 512, dtype=torch.bfloat16))


@pytest.mark.parametrize("release", FLASHINFER)
def test_paged_lse_is_natural_where_it_is_planned(release: str) -> None:
    kernels, _ = planned(release)
    paged = kernels.paged_mla(CPU)
    ckv, kpe = torch.randn(8, 4, 128).bfloat16(), torch.randn(8, 4, 64).bfloat16()
    q_nope, q_pe = torch.randn(2, 12, 128).bfloat16(), torch.randn(2, 12, 64).bfloat16()
    i32 = {"dtype": torch.int32}
    paged.plan(
        PagedPlan(
            qo_indptr=torch.tensor([0, 2], **i32),  # type: ignore[arg-type]
            kv_indptr=torch.tensor([0, 2], **i32),  # type: ignore[arg-type]
            kv_indices=torch.tensor([5, 3], **i32),  # type: ignore[arg-type]
            kv_len=torch.tensor([7], **i32),  # type: ignore[arg-type]
            num_heads=12,
            head_dim_ckv=128,
            head_dim_kpe=64,
            page_size=4,
            causal=True,
            sm_scale=0.1,
            q_dtype=torch.bfloat16,
            kv_dtype=torch.bfloat16,
            return_lse=True,
        )
    )
    out, lse = paged.run(q_nope, q_pe, ckv, kpe)
    rows = torch.cat([ckv, kpe], -1)[[5, 3]].flatten(0, 1)[:7].double()
    query = torch.cat([q_nope, q_pe], -1).double()
    scores = torch.einsum("qhd,kd->qhk", query, rows) * 0.1
    scores[0, :, 6] = float("-inf")
    assert lse is not None
    assert out.shape == (2, 12, 128)
    assert torch.allclose(lse.double(), scores.logsumexp(-1), atol=1e-4)


def test_kernels_are_chosen_by_name_and_never_by_the_librarys_default() -> None:
    assert paged_backend((9, 0), 512) == "fa3"
    assert paged_backend((9, 0), 384) == "fa2"
    assert paged_backend((8, 0), 512) == "fa2"
    assert [ragged_backend(c) for c in ((8, 0), (9, 0), (10, 0))] == ["fa2", "fa3", "cutlass"]


@pytest.mark.parametrize(
    ("heads", "launched"), [(1, 1), (12, 16), (20, 32), (24, 32), (64, 64), (96, 128), (128, 128)]
)
def test_causal_heads_are_padded_to_divide_a_tile(heads: int, launched: int) -> None:
    assert kernel_heads(heads, causal=True, max_q=2) == launched
    assert kernel_heads(heads, causal=True, max_q=1) == heads
    assert kernel_heads(heads, causal=False, max_q=9) == heads


@pytest.mark.parametrize("heads", [1, 12, 20, 64, 96, 128])
def test_states_of_more_heads_than_a_thread_block_holds_are_merged(heads: int) -> None:
    """``flashinfer.merge_state`` of 128 heads of 128 fails to launch on a GPU."""
    a, b = (torch.randn(3, heads, 128).bfloat16() for _ in range(2))
    lse_a, lse_b = torch.randn(3, heads), torch.randn(3, heads)
    out, lse = planned()[0].merge_state(a, lse_a, b, lse_b)
    expected, expected_lse = merge_state(a.double(), lse_a.double(), b.double(), lse_b.double())
    assert relative_error(out, expected) <= 1e-2
    assert relative_error(lse, expected_lse) <= 1e-6


def test_more_than_128_causal_heads_are_refused() -> None:
    with pytest.raises(ValueError, match=r"num_heads=192.*at most 128"):
        kernel_heads(192, causal=True, max_q=2)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: planned(capability=(7, 5)), "FlashInfer's MLA needs SM80.*this device is SM75"),
        (
            lambda: FlashInferBlockKernels(
                CPU, "cute-dsl", library=fake_library.flashinfer()[0], capability=(9, 0)
            ),
            "cute-dsl MLA decode kernel needs SM100, SM103; this device is SM90. Use FlashInferMLA",
        ),
        (
            lambda: TokenspeedBlockKernels(
                CPU, library=fake_library.tokenspeed()[0], capability=(12, 0)
            ),
            "tokenspeed MLA kernel needs SM100, SM103; this device is SM120",
        ),
        (lambda: FlashInferPlannedKernels(CPU), "need a CUDA device, got cpu"),
    ],
    ids=["SM75", "cute-dsl on SM90", "tokenspeed on SM120", "a CPU"],
)
def test_a_device_without_the_kernel_is_refused(build: Callable[[], object], words: str) -> None:
    with pytest.raises(KernelUnavailableError, match=words):
        build()


@pytest.mark.parametrize("version", ["0.6.13", "0.6.16.post4", "0.8.0", "0.5.3"])
def test_an_unsupported_release_is_refused_by_name(version: str) -> None:
    with pytest.raises(KernelUnavailableError, match=f"flashinfer-python {version} is not"):
        check_version(version)


@pytest.mark.parametrize(
    "version", ["0.6.17", "0.6.18.post1", "0.7.2.post1", "0.7.4", "0.7.9+cu130"]
)
def test_a_supported_release_passes(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize(
    ("dtype", "kv_dtype", "capability", "words"),
    [
        (torch.float32, None, (9, 0), "q_dtype=torch.float32.*bfloat16 or float16"),
        (torch.float16, FP8, (9, 0), "e4m3 with bfloat16 queries"),
        (torch.bfloat16, FP8, (8, 0), "needs SM90; use TRTLLMMLABackend"),
    ],
)
def test_dtypes_without_a_paged_kernel_are_refused(
    dtype: torch.dtype, kv_dtype: torch.dtype | None, capability: Capability, words: str
) -> None:
    world = World(config=LATENT_512, dtype=dtype, kv_dtype=kv_dtype)
    backend = FlashInferMLAAttnBackend(world.runner, kernels=planned(capability=capability)[0])
    one_pass = world.pass_of(ForwardMode.DECODE, [4], [1])
    with pytest.raises((ValueError, KernelUnavailableError), match=words):
        backend.init_forward_metadata(one_pass.batch)


def test_small_latents_are_refused_by_the_real_kernels() -> None:
    world = World(dtype=torch.bfloat16)
    backend = FlashInferMLAAttnBackend(world.runner, kernels=planned()[0])
    one_pass = world.pass_of(ForwardMode.DECODE, [4], [1])
    with pytest.raises(ValueError, match=r"head_dim_ckv=32.*multiples of 128 and 64"):
        backend.init_forward_metadata(one_pass.batch)


@pytest.mark.parametrize(("heads", "name"), [(96, "trtllm-gen"), (129, "cute-dsl")])
def test_head_counts_without_a_block_kernel_are_refused(heads: int, name: str) -> None:
    kernels, _ = blocks(name)
    with pytest.raises(ValueError, match=f"{heads} heads"):
        kernels.decode(
            torch.zeros(1, 1, heads, 576),
            torch.zeros(1, 32, 576),
            torch.zeros(1, 1, dtype=torch.int32),
            torch.ones(1, dtype=torch.int32),
            1,
            qk_nope_head_dim=128,
            kv_lora_rank=512,
            sm_scale=1.0,
            kv_scale=1.0,
            out_dtype=torch.bfloat16,
        )


def test_planning_reads_host_mirrors_only() -> None:
    """The wrapper copies its metadata to the host; device tensors would make it wait."""
    world = World(config=EVEN, dtype=torch.bfloat16)
    kernels, calls = planned()
    one_pass = world.pass_of(ForwardMode.DECODE, [5, 40], [1, 1])
    backend = FlashInferMLAAttnBackend(world.runner, kernels=kernels)
    one_pass.plan(backend)
    given = calls.of("BatchMLAPagedAttentionWrapper.plan")[0]
    assert given["kv_indptr"].tolist() == [0, 1, 3]
    assert given["kv_indptr"].data_ptr() != backend.kv_indptr.data_ptr()


@pytest.mark.parametrize("release", FLASHINFER)
def test_other_lengths_are_scheduled_on_the_host_alone_where_the_release_lets_them(
    release: str,
) -> None:
    world = World(config=LATENT_512, dtype=torch.bfloat16)
    kernels, calls = planned(release)
    backend = FlashInferMLAAttnBackend(world.runner, kernels=kernels)
    for lengths in ([5, 31, 100], [6, 32, 101], [9, 1, 2, 0]):
        world.forget()
        one_pass = world.pass_of(ForwardMode.DECODE, lengths, [1] * len(lengths))
        assert one_pass.error(one_pass.run(backend)) <= 1e-2
    plans = len(calls.of("BatchMLAPagedAttentionWrapper.plan"))
    alone = len(calls.of("_cached_module.plan"))
    assert (plans, alone) == ((1, 2) if release.startswith("0.6.") else (3, 0))


def test_another_shape_is_planned_in_full() -> None:
    """Twelve heads stay twelve for one query token per request, and are padded for several."""
    world = World(config=TWELVE, dtype=torch.bfloat16)
    kernels, calls = planned()
    backend = FlashInferMLAAttnBackend(world.runner, kernels=kernels)
    launched = []
    for q_lens in ([1, 1], [3, 2], [2, 3]):
        world.forget()
        one_pass = world.pass_of(ForwardMode.DRAFT_EXTEND_V2, [5, 31], q_lens)
        assert one_pass.error(one_pass.run(backend)) <= 1e-2
        launched.append(len(calls.of("BatchMLAPagedAttentionWrapper.plan")))
    assert launched == [1, 2, 2]


def test_a_release_without_the_private_scheduler_is_planned_in_full() -> None:
    world = World(config=LATENT_512, dtype=torch.bfloat16)
    kernels, calls = planned()
    backend = FlashInferMLAAttnBackend(world.runner, kernels=kernels)
    for lengths in ([5, 31], [6, 32]):
        world.forget()
        one_pass = world.pass_of(ForwardMode.DECODE, lengths, [1, 1])
        assert one_pass.error(one_pass.run(backend)) <= 1e-2
        del backend.decode_wrapper._wrapper._cached_module  # type: ignore[attr-defined]
    assert len(calls.of("BatchMLAPagedAttentionWrapper.plan")) == 2


def test_a_replay_whose_indices_lie_elsewhere_is_copied_into_the_graphs_buffer() -> None:
    kernels, calls = planned()
    buffers = GraphBuffers(
        torch.arange(3, dtype=torch.int32),
        torch.zeros(3, dtype=torch.int32),
        torch.zeros(9, dtype=torch.int32),
        torch.ones(2, dtype=torch.int32),
    )
    kernel = kernels.paged_mla(CPU, buffers)
    for indices in ([3, 1, 4, 5], [5, 4, 1, 3]):
        kernel.plan(
            PagedPlan(
                qo_indptr=torch.tensor([0, 1, 2], dtype=torch.int32),
                kv_indptr=torch.tensor([0, 1, 4], dtype=torch.int32),
                kv_indices=torch.tensor(indices, dtype=torch.int32),
                kv_len=torch.tensor([1, 3]),
                num_heads=16,
                head_dim_ckv=512,
                head_dim_kpe=64,
                page_size=1,
                causal=False,
                sm_scale=0.1,
                q_dtype=torch.bfloat16,
                kv_dtype=torch.bfloat16,
            )
        )
        assert buffers.kv_indices.tolist() == [*indices, 0, 0, 0, 0, 0]
    assert len(calls.of("_cached_module.plan")) == 1
