"""Our own decode over an e4m3 cache against float64, on the values that the cache holds."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from mla_runtime.kernels.fp8_decode import Fp8DecodeMla, serves
from mla_runtime.kernels.protocol import GraphBuffers, PagedPlan

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0),
        reason="needs an SM90 GPU",
    ),
]

RANK, ROW = 512, 576
KV_SCALE, SM_SCALE = 0.02, 192**-0.5
EDGES = [1, 63, 64, 65, 0, 500, 1500, 4097, 130, 7]


@dataclass
class Batch:
    """Requests of given lengths on scattered pages, and queries in the layout of a fused tensor."""

    pool: torch.Tensor
    q: torch.Tensor
    plan: PagedPlan
    rows: list[torch.Tensor]

    def run(
        self, planner: Fp8DecodeMla, into: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        q_nope, q_pe = self.q[..., :RANK], self.q[..., RANK:]
        ckv, kpe = self.pool[..., :RANK], self.pool[..., RANK:]
        return planner.run(q_nope, q_pe, ckv, kpe, kv_scale=KV_SCALE, into=into)

    def expected(self) -> tuple[torch.Tensor, torch.Tensor]:
        flat = self.pool.view(-1, ROW)
        outs, sums = [], []
        for q, rows in zip(self.q.double(), self.rows, strict=True):
            cached = flat[rows].to(torch.float32).double() * KV_SCALE
            scores = q @ cached.T * SM_SCALE
            outs.append(torch.softmax(scores, -1) @ cached[:, :RANK])
            sums.append(torch.logsumexp(scores, -1))
        return torch.stack(outs), torch.stack(sums)


def batch_of(
    lengths: list[int],
    heads: int = 16,
    page_size: int = 64,
    dtype: torch.dtype = torch.bfloat16,
    spread: float = 1.0,
) -> Batch:
    made = torch.Generator("cuda").manual_seed(sum(lengths) + heads)
    pages = [-(-n // page_size) for n in lengths]
    total = sum(pages)
    values = torch.randn(total + 3, page_size, ROW, device="cuda", generator=made) / KV_SCALE
    pool = values.clamp(-448, 448).to(torch.float8_e4m3fn)
    indices = torch.randperm(total + 3, device="cuda", generator=made)[:total].to(torch.int32)
    q = torch.randn(len(lengths), heads, ROW, device="cuda", generator=made) * spread
    kv_indptr = torch.tensor([0, *pages], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    qo_indptr = torch.arange(len(lengths) + 1, dtype=torch.int32)
    kv_len = torch.tensor(lengths, dtype=torch.int32)
    within = torch.arange(page_size, device="cuda")
    rows = [
        (indices[begin:end, None].long() * page_size + within).reshape(-1)[:n]
        for n, begin, end in zip(lengths, kv_indptr[:-1], kv_indptr[1:], strict=True)
    ]
    plan = PagedPlan(
        qo_indptr=qo_indptr.cuda(),
        kv_indptr=kv_indptr.cuda(),
        kv_indices=indices,
        kv_len=kv_len.cuda(),
        num_heads=heads,
        head_dim_ckv=RANK,
        head_dim_kpe=ROW - RANK,
        page_size=page_size,
        causal=False,
        sm_scale=SM_SCALE,
        q_dtype=dtype,
        kv_dtype=torch.float8_e4m3fn,
        return_lse=True,
        qo_indptr_cpu=qo_indptr,
        kv_indptr_cpu=kv_indptr,
        kv_len_cpu=kv_len,
    )
    assert serves(plan, (9, 0))
    return Batch(pool, q.to(dtype), plan, rows)


def assert_right(batch: Batch, out: torch.Tensor, lse: torch.Tensor | None) -> None:
    expected, sums = batch.expected()
    assert lse is not None
    empty = [i for i, rows in enumerate(batch.rows) if not len(rows)]
    full = [i for i, rows in enumerate(batch.rows) if len(rows)]
    assert torch.equal(out[empty], torch.zeros_like(out[empty]))
    assert torch.equal(lse[empty], torch.full_like(lse[empty], float("-inf")))
    if not full:
        return
    torch.testing.assert_close(lse[full].double(), sums[full], atol=1e-2, rtol=0.0)
    error = (out[full].double() - expected[full]).norm(dim=-1) / expected[full].norm(dim=-1)
    assert error.max().item() <= 1e-2
    assert error.mean().item() <= 3e-3


@pytest.mark.parametrize("page_size", [1, 12, 16, 64])
@pytest.mark.parametrize("heads", [1, 12, 16, 20, 32, 128])
def test_lengths_around_a_tile_and_requests_without_a_key(heads: int, page_size: int) -> None:
    batch = batch_of(EDGES, heads, page_size)
    planner = Fp8DecodeMla(torch.device("cuda"))
    planner.plan(batch.plan)
    assert_right(batch, *batch.run(planner))


@pytest.mark.parametrize(
    "lengths",
    [[70_001], [0], [1], [300, 40_000], [(37 * i) % 300 for i in range(1000)], [2048] * 256],
    ids=["one long", "no key", "one key", "two", "a thousand", "256 of 2 Ki"],
)
def test_requests_over_many_programs_and_programs_over_many_requests(lengths: list[int]) -> None:
    batch = batch_of(lengths)
    planner = Fp8DecodeMla(torch.device("cuda"))
    planner.plan(batch.plan)
    assert_right(batch, *batch.run(planner))


@pytest.mark.parametrize("spread", [1e-4, 8.0])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_small_and_large_queries(dtype: torch.dtype, spread: float) -> None:
    batch = batch_of(EDGES, dtype=dtype, spread=spread)
    planner = Fp8DecodeMla(torch.device("cuda"))
    planner.plan(batch.plan)
    assert_right(batch, *batch.run(planner))


def test_the_same_batch_gives_the_same_bits() -> None:
    """A race between the roles of a program would show as bits that change."""
    batch = batch_of([(997 * i) % 5000 for i in range(150)])
    planner = Fp8DecodeMla(torch.device("cuda"))
    planner.plan(batch.plan)
    out, lse = batch.run(planner)
    assert lse is not None
    for _ in range(300):
        again, again_lse = batch.run(planner)
        assert torch.equal(again, out)
        assert again_lse is not None
        assert torch.equal(again_lse, lse)


def test_a_captured_run_follows_the_plans() -> None:
    first, *others = (
        batch_of(lengths)
        for lengths in ([1, 1, 1, 1], [500, 0, 64, 3000], [9000, 1, 2, 65], [0, 0, 0, 1])
    )
    tokens = max(int(b.plan.kv_indptr[-1]) for b in (first, *others))
    pool = torch.zeros(tokens + 3, 64, ROW, device="cuda").to(torch.float8_e4m3fn)
    fixed = GraphBuffers(
        qo_indptr=first.plan.qo_indptr.clone(),
        kv_indptr=first.plan.kv_indptr.clone(),
        kv_indices=torch.zeros(tokens, dtype=torch.int32, device="cuda"),
        kv_len=first.plan.kv_len.clone(),
    )
    planner = Fp8DecodeMla(torch.device("cuda"), fixed)
    captured = Batch(pool, first.q.clone(), first.plan, first.rows)
    into = (
        torch.empty(4, 16, RANK, device="cuda", dtype=torch.bfloat16),
        torch.empty(4, 16, device="cuda"),
    )
    planner.plan(first.plan)
    captured.run(planner, into)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured.run(planner, into)
    for batch in (first, *others):
        pool[: len(batch.pool)] = batch.pool
        captured.q.copy_(batch.q)
        planner.plan(batch.plan)
        graph.replay()
        assert_right(batch, *into)
