"""Which batches our own kernel for an e4m3 cache takes, and which caches it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mla_runtime.kernels import flashinfer_planned, fp8_decode
from mla_runtime.kernels.flashinfer_planned import FastestPagedMla, FlashInferPlannedKernels
from mla_runtime.kernels.fp8_decode import row_stride, serves
from mla_runtime.kernels.protocol import GraphBuffers, PagedPlan
from tests.runtime import fake_library

SM90 = (9, 0)


def plan(queries: tuple[int, ...] = (1, 1)) -> PagedPlan:
    batch = len(queries)
    qo_indptr = torch.tensor((0, *queries), dtype=torch.int32).cumsum(0, dtype=torch.int32)
    kv_indptr = torch.arange(batch + 1, dtype=torch.int32)
    return PagedPlan(
        qo_indptr=qo_indptr,
        kv_indptr=kv_indptr,
        kv_indices=torch.arange(batch, dtype=torch.int32),
        kv_len=torch.ones(batch, dtype=torch.int32),
        num_heads=16,
        head_dim_ckv=512,
        head_dim_kpe=64,
        page_size=1,
        causal=False,
        sm_scale=0.1,
        q_dtype=torch.bfloat16,
        kv_dtype=torch.float8_e4m3fn,
    )


@pytest.fixture(autouse=True)
def triton_36(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fp8_decode, "_has_gluon", lambda: True)


def test_one_query_per_request_over_e4m3_is_served_on_sm90() -> None:
    assert serves(plan(), SM90)
    assert serves(replace(plan(), q_dtype=torch.float16), SM90)


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (10, 0), (12, 0)])
def test_other_devices_are_not(capability: tuple[int, int]) -> None:
    assert not serves(plan(), capability)


@pytest.mark.parametrize(
    "other",
    [
        plan(queries=(1, 2)),
        plan(queries=(1, 0)),
        plan(queries=(1,) * 1025),
        replace(plan(), kv_dtype=torch.bfloat16),
        replace(plan(), q_dtype=torch.float32),
        replace(plan(), head_dim_ckv=256),
        replace(plan(), head_dim_kpe=128),
    ],
    ids=["verify", "no query", "1025 requests", "bf16 cache", "float32", "rank 256", "rope 128"],
)
def test_other_batches_are_not(other: PagedPlan) -> None:
    assert not serves(other, SM90)


def test_another_triton_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for found, expected in (("3.6.0", True), ("3.5.1", False), ("3.7.0", False)):
        fp8_decode._has_gluon.cache_clear()
        monkeypatch.setattr(fp8_decode, "version", lambda _, found=found: found)
        assert serves(plan(), SM90) is expected
    fp8_decode._has_gluon.cache_clear()


def test_rows_of_the_pool_are_taken_as_they_lie() -> None:
    pool = torch.empty(4, 16, 640, dtype=torch.float8_e4m3fn)
    assert row_stride(pool[..., :512], pool[..., 512:576]) == 640


@pytest.mark.parametrize(
    ("ckv", "kpe"),
    [
        (torch.empty(4, 1, 512), torch.empty(4, 1, 64)),
        (torch.empty(4, 16, 576)[..., :512], torch.empty(4, 16, 576)[..., 512:]),
        (torch.empty(4, 32, 576)[:, ::2, :512], torch.empty(4, 32, 576)[:, ::2, 512:]),
    ],
    ids=["apart", "two pools", "every other token"],
)
def test_other_caches_are_refused(ckv: torch.Tensor, kpe: torch.Tensor) -> None:
    dtype = torch.float8_e4m3fn
    with pytest.raises(ValueError, match=r"reads tokens of 512 \+ 64 bytes that lie together"):
        row_stride(ckv.to(dtype), kpe.to(dtype))


class Planner:
    """Stands where our own planner would need a card."""

    def __init__(self, device: torch.device, graph_buffers: GraphBuffers | None = None) -> None:
        self.graph_buffers = graph_buffers
        self.plans: list[PagedPlan] = []

    def plan(self, plan: PagedPlan) -> None:
        self.plans.append(plan)


def test_each_plan_goes_to_the_kernel_that_serves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Planner] = []

    def own(device: torch.device, graph_buffers: GraphBuffers | None = None) -> Planner:
        made.append(Planner(device, graph_buffers))
        return made[-1]

    monkeypatch.setattr(flashinfer_planned, "Fp8DecodeMla", own)
    library, calls = fake_library.flashinfer()
    cpu = torch.device("cpu")
    kernels = FlashInferPlannedKernels(cpu, library=library, capability=SM90, own_fp8=True)
    planner = kernels.paged_mla(cpu)
    assert isinstance(planner, FastestPagedMla)
    e4m3, bf16 = plan(), replace(plan(), kv_dtype=torch.bfloat16)
    for each in (e4m3, bf16, e4m3):
        planner.plan(each)
    assert [p.plans for p in made] == [[e4m3, e4m3]]
    assert len(calls.of("BatchMLAPagedAttentionWrapper.plan")) == 1


def test_our_own_kernel_is_asked_for() -> None:
    library, _ = fake_library.flashinfer()
    cpu = torch.device("cpu")
    kernels = FlashInferPlannedKernels(cpu, library=library, capability=SM90)
    assert not isinstance(kernels.paged_mla(cpu), FastestPagedMla)
