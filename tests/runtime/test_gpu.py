"""The FlashInfer path on an NVIDIA GPU against the CPU reference, on identical inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch

from mla_runtime import (
    AttentionForm,
    FlashInferMLAAttnBackend,
    ForwardMode,
    GraphRecorder,
    MlaModelConfig,
    TorchMLABackend,
    create_backend,
    create_draft_backend,
)
from mla_runtime.__main__ import main
from mla_runtime.dense_reference import relative_error
from mla_runtime.engine.engine import TinyEngine
from mla_runtime.engine.options import EngineOptions
from mla_runtime.engine.phases import phase_reports
from mla_runtime.kernels.protocol import PagedPlan, RaggedPlan
from mla_runtime.kernels.softmax import merge_state
from mla_runtime.kernels.torch_planned import TorchPagedMla, TorchRagged
from tests.runtime.world import FP8, Pass, World

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

DEVICE = "cuda"


def assert_out_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.cpu(), expected, atol=1e-2, rtol=5e-2)


def assert_lse_close(actual: torch.Tensor | None, expected: torch.Tensor | None) -> None:
    assert actual is not None
    assert expected is not None
    torch.testing.assert_close(actual.cpu(), expected, atol=5e-3, rtol=0.0)


@dataclass
class Twins:
    """The same requests, weights and inputs on the CPU and on the GPU."""

    cpu: Pass
    gpu: Pass

    def compare(self, form: AttentionForm | None = None, capacity: int = 1 << 17) -> torch.Tensor:
        """Run both; the GPU's output, after it was found equal to the CPU's."""
        backend = FlashInferMLAAttnBackend(self.gpu.world.runner)
        assert backend.kernels.name == "flashinfer"
        out = self.gpu.run(backend, form, capacity=capacity).cpu()
        expected = self.cpu.run(TorchMLABackend(self.cpu.world.runner), form, capacity=capacity)
        assert_out_close(out, expected)
        return out


def model(heads: int) -> MlaModelConfig:
    return MlaModelConfig(num_attention_heads=heads, context_len=2048)


def twins(
    mode: ForwardMode,
    prefix_lens: list[int],
    q_lens: list[int],
    *,
    heads: int = 16,
    dtype: torch.dtype = torch.bfloat16,
    kv_dtype: torch.dtype | None = None,
    page_size: int = 64,
) -> Twins:
    pages = sum(-(-(p + q) // page_size) for p, q in zip(prefix_lens, q_lens, strict=True)) + 4
    cpu, gpu = (
        World(
            model(heads),
            dtype,
            kv_dtype,
            page_size=page_size,
            pages=pages,
            requests=max(12, len(q_lens)),
            device=device,
        ).pass_of(mode, prefix_lens, q_lens)
        for device in ("cpu", DEVICE)
    )
    return Twins(cpu, gpu)


@pytest.mark.parametrize("page_size", [1, 64])
@pytest.mark.parametrize("heads", [12, 16, 128])
def test_decode(heads: int, page_size: int) -> None:
    lengths = [1, 63, 64, 65, 500, 1500]
    run = twins(ForwardMode.DECODE, lengths, [1] * 6, heads=heads, page_size=page_size)
    assert run.gpu.error(run.compare()) <= 1e-2


@pytest.mark.parametrize("batch", [1, 200])
def test_decode_of_one_and_of_many(batch: int) -> None:
    lengths = [(37 * i) % 300 for i in range(batch)]
    twins(ForwardMode.DECODE, lengths, [1] * batch).compare()


@pytest.mark.parametrize("heads", [12, 16, 128])
def test_ragged_extend(heads: int) -> None:
    run = twins(ForwardMode.EXTEND, [0, 0, 0], [1, 63, 300], heads=heads)
    assert run.gpu.error(run.compare()) <= 1e-2


@pytest.mark.parametrize("heads", [12, 20, 16, 128])
def test_paged_extend(heads: int) -> None:
    run = twins(ForwardMode.EXTEND, [0, 64, 500], [40, 1, 150], heads=heads)
    assert run.gpu.error(run.compare(AttentionForm.MLA)) <= 1e-2


@pytest.mark.parametrize("capacity", [90, 300, 4000])
@pytest.mark.parametrize("heads", [16, 128])
def test_chunked_prefix(heads: int, capacity: int) -> None:
    """Chunks in which some request has no key, few merges in bf16, many in float32."""
    run = twins(ForwardMode.EXTEND, [0, 64, 500], [40, 1, 150], heads=heads)
    assert run.gpu.error(run.compare(AttentionForm.MHA_CHUNKED_KV, capacity)) <= 1e-2


def test_one_shot() -> None:
    run = twins(ForwardMode.MIXED, [0, 64, 500], [40, 1, 150])
    assert run.gpu.error(run.compare(AttentionForm.MHA_ONE_SHOT)) <= 1e-2


@pytest.mark.parametrize("heads", [12, 16, 128])
@pytest.mark.parametrize("draft", [2, 4, 7])
def test_target_verify(heads: int, draft: int) -> None:
    run = twins(ForwardMode.TARGET_VERIFY, [0, 61, 64, 500], [draft] * 4, heads=heads)
    assert run.gpu.error(run.compare()) <= 1e-2


def test_draft_extend() -> None:
    run = twins(ForwardMode.DRAFT_EXTEND_V2, [0, 61, 64, 500], [1, 4, 2, 3])
    assert run.gpu.error(run.compare()) <= 1e-2


def test_fp16_decode() -> None:
    run = twins(ForwardMode.DECODE, [1, 63, 500], [1] * 3, dtype=torch.float16)
    assert run.gpu.error(run.compare()) <= 1e-2


@pytest.mark.parametrize(
    ("mode", "q_lens"),
    [(ForwardMode.DECODE, [1, 1, 1]), (ForwardMode.TARGET_VERIFY, [4, 4, 4])],
    ids=["decode", "verify"],
)
def test_fp8_cache(mode: ForwardMode, q_lens: list[int]) -> None:
    run = twins(mode, [1, 63, 500], q_lens, kv_dtype=FP8)
    out = run.compare()
    expected = run.gpu.expected(prefix_from_pool=True, new_from_pool=True)
    assert relative_error(out, expected) <= 1e-2


def test_prefix_of_an_fp8_cache_in_chunks() -> None:
    run = twins(ForwardMode.EXTEND, [0, 64, 500], [40, 1, 150], kv_dtype=FP8)
    out = run.compare(AttentionForm.MHA_CHUNKED_KV, 300)
    assert relative_error(out, run.gpu.expected(prefix_from_pool=True)) <= 1e-2


def test_multi_step_draft() -> None:
    worlds = [
        World(model(16), torch.bfloat16, pages=64, page_size=64, device=d) for d in ("cpu", DEVICE)
    ]
    passes = []
    for world in worlds:
        first = world.pass_of(ForwardMode.DECODE, [4, 63, 300], [1] * 3)
        for request, length in enumerate([5, 64, 301]):
            world.grow(request, length + 3)
        first.run(TorchMLABackend(world.runner))
        name = "torch" if world.device == "cpu" else "flashinfer"
        draft = create_draft_backend(name, world.runner, 1, 4)
        draft.init_forward_metadata(first.batch)
        outs = []
        for step, backend in enumerate(draft.attn_backends):
            one_pass = world.next_decode([n + step for n in (5, 64, 301)])
            outs.append(one_pass.run(backend, plan=False).cpu())
        passes.append(outs)
    for ours, reference in zip(passes[1], passes[0], strict=True):
        assert_out_close(ours, reference)


@pytest.mark.parametrize(
    ("mode", "queries"),
    [
        (ForwardMode.DECODE, 1),
        (ForwardMode.TARGET_VERIFY, 4),
        (ForwardMode.DRAFT_EXTEND_V2, 4),
    ],
    ids=["decode", "verify", "draft extend"],
)
def test_captured_and_replayed_over_changing_lengths(mode: ForwardMode, queries: int) -> None:
    cpu, gpu = (
        World(model(16), torch.bfloat16, pages=64, page_size=64, device=d) for d in ("cpu", DEVICE)
    )
    for world in (cpu, gpu):
        world.runner.server_args = replace(
            world.runner.server_args, speculative_num_draft_tokens=queries
        )
    backend = FlashInferMLAAttnBackend(gpu.runner)
    backend.init_cuda_graph_state(4, 4 * queries)
    recorder = GraphRecorder(backend)
    shortest = [1, 1, 1] if mode is not ForwardMode.DECODE else [0, 0, 0]
    captured = gpu.pass_of(mode, shortest, [queries] * 3)
    inputs = [
        x.to(DEVICE) for x in (captured.q_nope, captured.q_pe, captured.latent, captured.k_pe)
    ]
    recorder.capture("graph", captured.batch)

    def step() -> torch.Tensor:
        return gpu.core.attend(
            AttentionForm.MLA, backend, captured.batch, gpu.device_heads, *inputs
        )

    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    for lengths in ([5, 64, 300], [1500, 2, 63], [9, 9, 9]):
        results = []
        for world in (cpu, gpu):
            world.forget()
            world.generator.manual_seed(sum(lengths))
            results.append(world.pass_of(mode, lengths, [queries] * 3))
        ours = results[1]
        for buffer, value in zip(
            inputs, (ours.q_nope, ours.q_pe, ours.latent, ours.k_pe), strict=True
        ):
            buffer.copy_(value)
        captured.batch.out_cache_loc.copy_(ours.batch.out_cache_loc)
        recorder.replay("graph", ours.batch)
        out.fill_(math.nan)
        graph.replay()
        expected = results[0].run(TorchMLABackend(cpu.runner))
        assert_out_close(out, expected)


def paged_plan(device: str, causal: bool, heads: int) -> PagedPlan:
    def ints(*values: int) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    return PagedPlan(
        qo_indptr=ints(0, 3, 3, 8),
        kv_indptr=ints(0, 3, 3, 5),
        kv_indices=ints(7, 2, 5, 1, 4),
        kv_len=ints(150, 0, 65),
        num_heads=heads,
        head_dim_ckv=512,
        head_dim_kpe=64,
        page_size=64,
        causal=causal,
        sm_scale=0.07,
        q_dtype=torch.bfloat16,
        kv_dtype=torch.bfloat16,
        return_lse=True,
    )


@pytest.mark.parametrize("heads", [12, 16, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_paged_lse(causal: bool, heads: int) -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = [
        torch.randn(*shape, generator=generator).bfloat16()
        for shape in ((8, heads, 512), (8, heads, 64), (9, 64, 512), (9, 64, 64))
    ]
    reference = TorchPagedMla()
    reference.plan(paged_plan("cpu", causal, heads))
    out, lse = reference.run(*inputs)
    kernel = FlashInferMLAAttnBackend(World(model(heads), device=DEVICE).runner).kernels.paged_mla(
        torch.device(DEVICE)
    )
    kernel.plan(paged_plan(DEVICE, causal, heads))
    gpu_out, gpu_lse = kernel.run(*(x.to(DEVICE) for x in inputs))
    assert_lse_close(gpu_lse, lse)
    assert_out_close(gpu_out, out)


@pytest.mark.parametrize("causal", [False, True])
def test_a_schedule_alone_gives_what_a_whole_plan_gives(causal: bool) -> None:
    """Bit for bit, over lengths that need other splits; many plans before the device is done."""
    kernels = FlashInferMLAAttnBackend(World(model(16), device=DEVICE).runner).kernels
    device = torch.device(DEVICE)
    queries = 4 if causal else 1
    rows = torch.randn(40_000, 1, 576, device=DEVICE).bfloat16()
    again = kernels.paged_mla(device)
    results = []
    for lengths in ([900, 4, 77], [5, 20_000, 300], [64, 64, 64], [12_000, 1 + queries, 9]):
        batch, counts = len(lengths), torch.tensor(lengths)
        indptr = torch.zeros(batch + 1, dtype=torch.int32)
        indptr[1:] = counts.cumsum(0)
        indices = torch.randperm(40_000)[: sum(lengths)].to(DEVICE, torch.int32)
        qo = torch.arange(batch + 1, dtype=torch.int32) * queries
        q = torch.randn(batch * queries, 16, 576, device=DEVICE).bfloat16()
        plan = PagedPlan(
            qo.to(DEVICE), indptr.to(DEVICE), indices, counts.to(DEVICE), 16, 512, 64, 1, causal,
            0.07, torch.bfloat16, torch.bfloat16, True, qo, indptr, counts,
        )  # fmt: skip
        once = kernels.paged_mla(device)
        outs = []
        for planner in (once, again):
            planner.plan(plan)
            outs.append(planner.run(q[..., :512], q[..., 512:], rows[..., :512], rows[..., 512:]))
        results.append(outs)
    for whole, alone in results:
        for a, b in zip(whole, alone, strict=True):
            assert a is not None
            assert b is not None
            assert torch.equal(a, b)


@pytest.mark.parametrize("causal", [False, True])
def test_ragged_lse_and_rows_without_a_key(causal: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    q, k, v = (
        torch.randn(n, 16, d, generator=generator).bfloat16()
        for n, d in ((40, 192), (215, 192), (215, 128))
    )
    qo, kv = (torch.tensor(x, dtype=torch.int32) for x in ([0, 10, 15, 40], [0, 150, 150, 215]))

    def plan(device: str) -> RaggedPlan:
        return RaggedPlan(
            qo.to(device), kv.to(device), 16, 16, 192, 128, causal, 0.07, torch.bfloat16
        )

    reference = TorchRagged()
    reference.plan(plan("cpu"))
    out, lse = reference.run(q, k, v, return_lse=True)
    kernel = FlashInferMLAAttnBackend(World(model(16), device=DEVICE).runner).kernels.ragged(
        torch.device(DEVICE)
    )
    kernel.plan(plan(DEVICE))
    gpu_out, gpu_lse = kernel.run(q.cuda(), k.cuda(), v.cuda(), return_lse=True)
    assert_lse_close(gpu_lse, lse)
    assert gpu_lse is not None
    assert bool((gpu_lse[10:15] == -math.inf).all())
    assert_out_close(gpu_out, out)


@pytest.mark.parametrize("heads", [12, 16, 128])
def test_merging_states(heads: int) -> None:
    kernels = FlashInferMLAAttnBackend(World(model(heads), device=DEVICE).runner).kernels
    a, b = (torch.randn(64, heads, 128).bfloat16() for _ in range(2))
    lse_a, lse_b = (torch.randn(64, heads) * 5 for _ in range(2))
    lse_a[:8], lse_b[4:12] = -math.inf, -math.inf
    a[:8], b[4:12] = 0.0, 0.0
    out, lse = merge_state(a, lse_a, b, lse_b)
    gpu_out, gpu_lse = kernels.merge_state(a.cuda(), lse_a.cuda(), b.cuda(), lse_b.cuda())
    assert_out_close(gpu_out, out)
    assert_lse_close(gpu_lse, lse)
    assert bool((gpu_lse[4:8] == -math.inf).all())


def test_auto_is_flashinfer() -> None:
    backend = create_backend("auto", World(model(16), device=DEVICE).runner)
    assert type(backend) is FlashInferMLAAttnBackend


def test_the_tiny_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--device", "cuda", "--dtype", "bf16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mla on cuda: FlashInferMLAAttnBackend, kernels: flashinfer"
    assert max(float(line.split()[-2]) for line in lines[2:]) <= 2e-2


@pytest.mark.parametrize("model", ["ring", "kimi-linear", "gated-delta-net"])
def test_hybrid_models_through_every_composite(model: str) -> None:
    """Linear layers on fla-core or torch, whichever is there; against float64 on the host."""
    options = EngineOptions(
        model, device="cuda", dtype=torch.bfloat16, requests=3, prompt=40, speculative=3,
        split_prefill_decode=True, tbo=True,
    )  # fmt: skip
    reports = phase_reports(TinyEngine(options))
    assert reports[1].form == "MHA_CHUNKED_KV"
    assert max(report.error for report in reports) <= 2e-2
