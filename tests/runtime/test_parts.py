"""The parts that have no backend: cutting, indexing, phases, settings, choice, workspace."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mla_runtime import AttentionForm, ForwardBatch, ForwardMode, LatentHeads, create_backend
from mla_runtime.attention_form import planned_form
from mla_runtime.chunked_prefix import plan_prefix_chunks
from mla_runtime.create import choose_backend, kernels_of
from mla_runtime.indices import block_table, gather_pages, gather_slots
from mla_runtime.kernels.flashinfer_blocks import counter_bytes
from mla_runtime.kernels.lse import canonical_lse, clear_empty_requests
from mla_runtime.kernels.protocol import PagedPlan, RaggedPlan
from mla_runtime.kernels.softmax import attend, merge_state
from mla_runtime.kernels.torch_blocks import TorchBlockKernels
from mla_runtime.kernels.torch_planned import TorchPagedMla, TorchRagged
from mla_runtime.phase import Phase, phase_of
from mla_runtime.settings import EngineSettings
from mla_runtime.workspace import WorkspaceKind, workspace
from tests.runtime.world import World

CPU = torch.device("cpu")


@given(
    prefix=st.lists(st.integers(0, 50), min_size=1, max_size=8),
    capacity=st.integers(1, 80),
)
def test_chunks_cover_every_prefix_token_once(prefix: list[int], capacity: int) -> None:
    chunks = plan_prefix_chunks(prefix, capacity)
    table = torch.arange(8 * 64, dtype=torch.int32).view(8, 64)
    requests = torch.arange(len(prefix))
    seen: list[int] = []
    for index, slots in enumerate(chunks.kv_indices(table, requests)):
        lens = chunks.seq_lens[index].tolist()
        assert slots.numel() == sum(lens) == chunks.num_tokens[index]
        assert chunks.num_tokens[index] <= max(capacity, len(prefix))
        assert chunks.max_seq_lens[index] == max(lens)
        assert chunks.has_zero_kv[index] == (0 in lens)
        assert chunks.cu_seq_lens[index].tolist() == [sum(lens[:i]) for i in range(len(lens) + 1)]
        seen += slots.tolist()
    assert sorted(seen) == sorted(64 * r + p for r, n in enumerate(prefix) for p in range(n))


@pytest.mark.parametrize(
    ("prefix", "capacity", "words"),
    [([], 4, "expected lengths"), ([-1], 4, "prefix_lens="), ([3], 0, "capacity=0")],
)
def test_a_cut_that_cannot_be(prefix: list[int], capacity: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plan_prefix_chunks(prefix, capacity)


def test_a_decode_batch_has_no_prefix_to_cut() -> None:
    with pytest.raises(ValueError, match="DECODE batch has no extend_prefix_lens_cpu"):
        ForwardBatch.decode([0], [4], [1]).prepare_chunked_prefix_cache_info(torch.zeros(1, 4))


@given(lens=st.lists(st.integers(0, 40), min_size=1, max_size=6), start=st.integers(0, 9))
def test_gathered_slots_are_those_of_each_request_in_order(lens: list[int], start: int) -> None:
    table = torch.randperm(8 * 64).to(torch.int32).view(8, 64)
    requests = torch.tensor([7 - i for i in range(len(lens))])
    expected = [table[7 - i, start + p].item() for i, n in enumerate(lens) for p in range(n)]
    out = torch.full((400,), -5, dtype=torch.int32)
    starts = torch.full((len(lens),), start)
    filled = gather_slots(table, requests, torch.tensor(lens), sum(lens), starts=starts, out=out)
    assert filled.tolist() == expected
    assert not expected or filled.data_ptr() == out.data_ptr()
    assert bool((out[len(expected) :] == -5).all())


@given(
    lens=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    stride=st.sampled_from([1, 2, 8]),
    rank=st.integers(0, 7),
)
def test_gathered_pages_and_rows_of_a_shard(lens: list[int], stride: int, rank: int) -> None:
    table = torch.randperm(8 * 64).to(torch.int32).view(8, 64)
    first = rank % stride
    expected = [
        [table[7 - i, p].item() // stride for p in range(first, n, stride)]
        for i, n in enumerate(lens)
    ]
    indptr, out = torch.zeros(9, dtype=torch.int32), torch.full((400,), -5, dtype=torch.int32)
    total = sum(map(len, expected))
    requests = torch.tensor([7 - i for i in range(len(lens))])
    filled = gather_pages(
        table, requests, torch.tensor(lens), total, stride, first, indptr[: len(lens) + 1], out
    )
    assert filled.tolist() == [index for request in expected for index in request]
    assert indptr[: len(lens) + 1].tolist() == [
        sum(map(len, expected[:i])) for i in range(len(lens) + 1)
    ]
    assert bool((out[total:] == -5).all())


def test_slots_that_do_not_fit_their_buffer() -> None:
    with pytest.raises(ValueError, match="3 KV indices do not fit a buffer of 2"):
        gather_slots(torch.zeros(1, 4), torch.tensor([0]), torch.tensor([3]), 3, out=torch.zeros(2))


@given(lens=st.lists(st.integers(0, 70), min_size=1, max_size=5), page_size=st.sampled_from([1, 8]))
def test_a_block_table_holds_pages_and_then_holes(lens: list[int], page_size: int) -> None:
    width = 64
    first = torch.randperm(8 * width // page_size).view(8, -1) * page_size
    table = (first[..., None] + torch.arange(page_size)).flatten(1).to(torch.int32)
    requests = torch.arange(len(lens))
    got = block_table(table, requests, torch.tensor(lens), page_size, 80 // page_size)
    for request, length in enumerate(lens):
        pages = -(-length // page_size)
        inside = min(pages, width // page_size)
        wanted = table[request, : inside * page_size : page_size] // page_size
        assert got[request, :inside].tolist() == wanted.tolist()
        assert got[request, inside:pages].tolist() == [0] * (pages - inside)
        assert bool((got[request, pages:] == -1).all())


@pytest.mark.parametrize("name", ["PREBUILT", "DLLM_EXTEND"])
def test_modes_without_attention_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"forward mode {name} is not served.*TARGET_VERIFY"):
        phase_of(SimpleNamespace(name=name))


def test_the_predicates_of_the_modes_agree_with_their_phases() -> None:
    for mode in ForwardMode:
        phase = phase_of(mode)
        assert mode.is_decode_or_idle() == (phase in (Phase.DECODE, Phase.IDLE))
        assert mode.is_decode() == (phase is Phase.DECODE)
        assert mode.is_idle() == (phase is Phase.IDLE)
        assert mode.is_target_verify() == (phase is Phase.TARGET_VERIFY)
        assert mode.is_draft_extend_v2() == (phase is Phase.DRAFT_EXTEND)
        assert mode.is_extend() == (phase in (Phase.EXTEND, Phase.TARGET_VERIFY))
        assert mode.is_extend(include_draft_extend_v2=True) == (
            mode.is_extend() or mode.is_draft_extend_v2()
        )
        assert mode.is_mixed() == (mode is ForwardMode.MIXED)


def test_settings_come_from_server_args_where_there_are_some() -> None:
    runner = World().runner
    assert EngineSettings.of(runner) == EngineSettings()
    runner.server_args = SimpleNamespace(  # type: ignore[assignment]
        disable_chunked_prefix_cache=True, speculative_num_draft_tokens=4, unrelated=1
    )
    assert EngineSettings.of(runner) == EngineSettings(
        disable_chunked_prefix_cache=True, speculative_num_draft_tokens=4
    )


@pytest.mark.parametrize(
    ("prefix", "new", "flags", "form"),
    [
        (0, 9, {}, AttentionForm.MHA_ONE_SHOT),
        (0, 300, {}, AttentionForm.MHA_CHUNKED_KV),
        (99, 9, {}, AttentionForm.MLA),
        (100, 9, {}, AttentionForm.MHA_ONE_SHOT),
        (199, 9, {}, AttentionForm.MHA_CHUNKED_KV),
        (100, 9, {"disable_chunked_prefix_cache": True}, AttentionForm.MLA),
        (0, 9, {"disable_chunked_prefix_cache": True}, AttentionForm.MHA_ONE_SHOT),
        (0, 9, {"flashinfer_mla_disable_ragged": True}, AttentionForm.MLA),
        (100, 9, {"disaggregation_mode": "decode"}, AttentionForm.MLA),
    ],
)
def test_the_form_follows_the_cached_tokens(
    prefix: int, new: int, flags: dict[str, Any], form: AttentionForm
) -> None:
    settings = EngineSettings(
        chunked_prefix_cache_threshold=100, prefix_chunk_capacity=200, **flags
    )
    assert planned_form(prefix, new, settings) is form


@pytest.mark.parametrize(
    ("capability", "page_size", "name"),
    [
        (None, 1, "torch"),
        ((7, 5), 64, "torch"),
        ((8, 0), 64, "flashinfer"),
        ((9, 0), 64, "flashinfer"),
        ((10, 0), 64, "trtllm_mla"),
        ((10, 3), 32, "trtllm_mla"),
        ((10, 0), 1, "flashinfer"),
        ((12, 0), 64, "flashinfer"),
    ],
)
def test_auto_chooses_by_capability(
    capability: tuple[int, int] | None, page_size: int, name: str
) -> None:
    assert choose_backend(capability, page_size) == name


def test_auto_on_a_cpu_is_the_torch_reference() -> None:
    backend = create_backend("auto", World().runner)
    assert type(backend).__name__ == "TorchMLABackend"
    assert kernels_of(backend) == "torch"


def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"backend 'flashmla'; expected 'auto' or one of torch"):
        create_backend("flashmla", World().runner)


def test_a_workspace_is_one_per_device_and_kind() -> None:
    shared = workspace(CPU, WorkspaceKind.FLASHINFER)
    assert workspace(CPU, WorkspaceKind.FLASHINFER) is shared
    trtllm, cute = (workspace(CPU, k) for k in (WorkspaceKind.TRTLLM, WorkspaceKind.CUTE_DSL))
    assert len({b.data_ptr() for b in (shared, trtllm, cute)}) == 3
    assert (trtllm.numel(), shared.numel()) == (150 << 20, 384 << 20)
    assert WorkspaceKind.TRTLLM.zeroed
    assert not WorkspaceKind.FLASHINFER.zeroed


def test_a_workspace_grows_and_the_outgrown_one_stays_alive() -> None:
    small = workspace(CPU, WorkspaceKind.TOKENSPEED, 16)
    pointer, size = small.data_ptr(), small.numel()
    large = workspace(CPU, WorkspaceKind.TOKENSPEED, size + 64)
    assert large.numel() == size + 64
    assert workspace(CPU, WorkspaceKind.TOKENSPEED, 8) is large
    assert (small.data_ptr(), small.numel()) == (pointer, size)


def test_counters_are_sized_as_trtllm_sizes_them() -> None:
    assert counter_bytes(8192, 128, 148) == 4 * 8192 * 128
    assert counter_bytes(1, 1, 147) == 4 * 152


def test_lse_of_every_kernel_becomes_natural_with_one_empty_value() -> None:
    raw = torch.tensor([3.0, -5.0e4, math.inf, -math.inf, -9000.0])
    got = canonical_lse(raw, base2=True)
    assert torch.allclose(got[[0, 4]], raw[[0, 4]] * math.log(2))
    assert got[1:4].tolist() == [-math.inf] * 3
    assert canonical_lse(raw, base2=False)[0] == 3.0


def test_empty_requests_are_cleared_whatever_the_kernel_left() -> None:
    out = torch.full((5, 2, 3), math.nan)
    out[2:4] = 1.0
    lens, cum = torch.tensor([0, 4, 0]), torch.tensor([0, 2, 4, 5], dtype=torch.int32)
    cleared, lse = clear_empty_requests(out, torch.ones(5, 2), lens, cum)
    assert cleared[:, 0, 0].tolist() == [0.0, 0.0, 1.0, 1.0, 0.0]
    assert lse is not None
    assert lse[:, 0].tolist() == [-math.inf, -math.inf, 1.0, 1.0, -math.inf]
    assert clear_empty_requests(out, None, lens, cum)[1] is None


@given(n=st.integers(0, 5), m=st.integers(0, 7), cut=st.integers(0, 7), seed=st.integers(0, 99))
def test_attention_over_two_parts_is_attention_over_both(
    n: int, m: int, cut: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(c, 2, 4, generator=generator, dtype=torch.float64) for c in (n, m, m))
    cut = min(cut, m)
    whole = attend(q, k, v, 0.7, causal=False)
    merged = merge_state(
        *attend(q, k[:cut], v[:cut], 0.7, causal=False),
        *attend(q, k[cut:], v[cut:], 0.7, causal=False),
    )
    assert torch.allclose(merged[0], whole[0], atol=1e-12)
    assert torch.allclose(merged[1], whole[1], atol=1e-12)


def test_a_query_before_every_key_is_empty() -> None:
    q, kv = torch.ones(3, 1, 4), torch.ones(2, 1, 4)
    out, lse = attend(q, kv, kv, 1.0, causal=True)
    assert lse[0, 0] == -math.inf
    assert out[0].tolist() == [[0.0] * 4]
    assert bool(torch.isfinite(lse[1:]).all())


@pytest.mark.parametrize("shared", [False, True], ids=["a key per head", "one key for all"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "m"), [(9, 11), (9, 9), (9, 4), (1, 7)])
def test_blocked_queries_are_the_same_as_one_block(
    n: int, m: int, causal: bool, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k = torch.randn(n, 2, 4), torch.randn(m, 1 if shared else 2, 4)
    whole = attend(q, k, k, 0.5, causal=causal)
    monkeypatch.setattr("mla_runtime.kernels.softmax._MAX_SCORES", 2 * m * 2)
    blocked = attend(q, k, k, 0.5, causal=causal)
    assert torch.allclose(blocked[0], whole[0], atol=1e-6)
    assert torch.allclose(blocked[1], whole[1], atol=1e-6)


def paged_plan(**changes: object) -> PagedPlan:
    values: dict[str, object] = {
        "qo_indptr": torch.tensor([0, 2], dtype=torch.int32),
        "kv_indptr": torch.tensor([0, 2], dtype=torch.int32),
        "kv_indices": torch.tensor([1, 2], dtype=torch.int32),
        "kv_len": torch.tensor([7], dtype=torch.int32),
        "num_heads": 2,
        "head_dim_ckv": 8,
        "head_dim_kpe": 4,
        "page_size": 4,
        "causal": True,
        "sm_scale": 1.0,
        "q_dtype": torch.float32,
        "kv_dtype": torch.float32,
    }
    return PagedPlan(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kv_len": torch.tensor([9])}, r"gives \[2\] pages per request.*needs \[3\]"),
        ({"kv_len": torch.zeros(0)}, "nonempty batch"),
        ({"kv_indptr": torch.tensor([1, 3])}, r"kv_indptr must start at 0.*\[1, 3\]"),
        ({"qo_indptr": torch.tensor([0, -1])}, "qo_indptr must start at 0 and not decrease"),
        ({"qo_indptr": torch.tensor([0, 1, 2])}, r"qo_indptr has shape \[3\]; expected \[2\]"),
        ({"kv_indices": torch.tensor([1])}, r"kv_indices holds 1 pages; kv_indptr\[-1\] is 2"),
        ({"page_size": 0}, "page_size=0"),
    ],
)
def test_contradicting_metadata_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TorchPagedMla().plan(paged_plan(**changes))


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (
            ((2, 3, 8), (2, 2, 4), (9, 4, 8), (9, 4, 4)),
            r"q_nope has shape \[2, 3, 8\].*\[\*, 2, 8\]",
        ),
        (((2, 2, 8), (2, 2, 5), (9, 4, 8), (9, 4, 4)), "q_pe has shape"),
        (((2, 2, 8), (2, 2, 4), (9, 1, 8), (9, 4, 4)), "ckv has shape"),
        (((2, 2, 8), (2, 2, 4), (9, 4, 8), (9, 4, 5)), "kpe has shape"),
        (((3, 2, 8), (3, 2, 4), (9, 4, 8), (9, 4, 4)), r"q.shape\[0\] \(3\) does not match"),
    ],
)
def test_inputs_that_the_plan_does_not_expect_are_refused(
    shapes: tuple[tuple[int, ...], ...], words: str
) -> None:
    paged = TorchPagedMla()
    with pytest.raises(RuntimeError, match="run before plan"):
        paged.run(*(torch.zeros(s) for s in shapes))
    paged.plan(paged_plan())
    with pytest.raises(ValueError, match=words):
        paged.run(*(torch.zeros(s) for s in shapes))


def test_dtypes_that_the_plan_does_not_expect_are_refused() -> None:
    paged = TorchPagedMla()
    paged.plan(paged_plan(q_dtype=torch.bfloat16))
    inputs = [
        torch.zeros(2, 2, 8),
        torch.zeros(2, 2, 4),
        torch.zeros(9, 4, 8),
        torch.zeros(9, 4, 4),
    ]
    with pytest.raises(ValueError, match=r"q_nope has dtype torch.float32; the plan expects"):
        paged.run(*inputs)
    paged.plan(paged_plan(kv_dtype=torch.bfloat16))
    with pytest.raises(ValueError, match=r"ckv has dtype torch.float32; the plan expects"):
        paged.run(*inputs)


def test_a_ragged_plan_is_checked() -> None:
    indptr = torch.tensor([0, 2], dtype=torch.int32)
    ragged = TorchRagged()
    q, k = torch.zeros(2, 4, 8), torch.zeros(2, 4, 8)
    with pytest.raises(RuntimeError, match="run before plan"):
        ragged.run(q, k, k)
    with pytest.raises(ValueError, match="num_qo_heads=4 does not divide by num_kv_heads=3"):
        ragged.plan(RaggedPlan(indptr, indptr, 4, 3, 8, 8, True, 1.0, torch.float32))
    with pytest.raises(ValueError, match="nonempty batch"):
        ragged.plan(RaggedPlan(indptr[:1], indptr[:1], 4, 4, 8, 8, True, 1.0, torch.float32))
    ragged.plan(RaggedPlan(indptr, indptr, 4, 4, 8, 8, True, 1.0, torch.float32))
    with pytest.raises(ValueError, match=r"k.shape\[0\] \(1\) does not match kv_indptr"):
        ragged.run(q, k[:1], k)
    with pytest.raises(ValueError, match=r"k has shape \[2, 3, 8\]"):
        ragged.run(q, k[:, :3], k)


def test_an_eager_plan_keeps_its_own_metadata() -> None:
    """The updaters reuse one buffer for the plans of several kernels."""
    paged, kv_indptr = TorchPagedMla(), torch.tensor([0, 2], dtype=torch.int32)
    paged.plan(paged_plan(kv_indptr=kv_indptr))
    inputs = [
        torch.randn(2, 2, 8),
        torch.randn(2, 2, 4),
        torch.randn(9, 4, 8),
        torch.randn(9, 4, 4),
    ]
    before, _ = paged.run(*inputs)
    kv_indptr.fill_(0)
    after, _ = paged.run(*inputs)
    assert torch.equal(before, after)


@pytest.mark.parametrize(
    ("table", "lens", "longest", "words"),
    [
        ([[1, -1]], [33], 64, r"block_tables\[0\] has a hole within the first 33 tokens"),
        ([[1]], [33], 64, "has a hole"),
        ([[1, 2]], [33], 32, r"seq_lens\[0\]=33 exceeds max_seq_len=32"),
        ([[1], [1]], [3], 64, "block_tables.shape"),
        ([[1]], [3, 3], 64, "seq_lens.shape"),
    ],
)
def test_a_block_table_that_does_not_reach_is_refused(
    table: list[list[int]], lens: list[int], longest: int, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        TorchBlockKernels().decode(
            torch.zeros(1, 1, 2, 12),
            torch.zeros(3, 32, 12),
            torch.tensor(table, dtype=torch.int32),
            torch.tensor(lens, dtype=torch.int32),
            longest,
            qk_nope_head_dim=4,
            kv_lora_rank=8,
            sm_scale=1.0,
            kv_scale=1.0,
            out_dtype=torch.float32,
        )


def test_a_weight_of_broken_heads_is_refused() -> None:
    with pytest.raises(ValueError, match=r"10 rows; expected a multiple of .* = 4"):
        LatentHeads(torch.zeros(10, 3), 3, 1)
