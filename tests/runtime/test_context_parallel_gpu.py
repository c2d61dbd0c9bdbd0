"""Decode context parallel over FlashInfer: two processes on one GPU, and one on each of two."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from mla_runtime import AttentionForm, ForwardMode, MlaKvPool, MlaModelConfig
from mla_runtime.dense_reference import relative_error
from mla_runtime.head_exchange import COMM_BACKENDS
from mla_runtime.kernels.partial_states import merge_states, pack_state, unpack_states
from mla_runtime.kv_shard import KvShard
from tests.runtime.dcp_cases import Case, Errors, compare, replayed
from tests.runtime.ranks import Ranks
from tests.runtime.world import FP8, TOLERANCE

GPUS = torch.cuda.device_count()

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not GPUS, reason="needs an NVIDIA GPU"),
]


@pytest.fixture(scope="module", params=["gloo, one GPU", "nccl, two GPUs"])
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    if request.param == "gloo, one GPU":
        started = Ranks(2, "gloo", "cuda:0", seconds=300)
    elif GPUS < 2:
        pytest.skip(f"NCCL needs a GPU for each of two ranks; this machine has {GPUS}")
    else:
        started = Ranks(2, "nccl", "cuda:rank", seconds=300)
    yield started
    started.close()


CASE = Case(
    ForwardMode.DECODE,
    (0, 1, 63, 64, 500, 1500),
    (1,) * 6,
    dtype=torch.bfloat16,
    page_size=64,
    config=MlaModelConfig(num_attention_heads=16, context_len=2048),
    backend="flashinfer",
)
EXTEND = replace(CASE, mode=ForwardMode.EXTEND, prefix=(0, 1, 64, 500), new=(40, 3, 1, 150))
CASES = {
    "decode": CASE,
    "decode, all-gather": replace(CASE, comm_backend="ag"),
    "decode, all-gather of LSEs and reduce-scatter": replace(CASE, comm_backend="ag_rs"),
    "decode, pages of 1": replace(CASE, page_size=1),
    "decode, 128 heads": replace(CASE, config=replace(CASE.config, num_attention_heads=128)),
    "decode of one token on one rank": replace(CASE, prefix=(0,), new=(1,)),
    "decode, fp16": replace(CASE, dtype=torch.float16),
    "decode, e4m3 cache": replace(CASE, kv_dtype=FP8),
    "verify": replace(CASE, mode=ForwardMode.TARGET_VERIFY, prefix=(0, 1, 64, 500), new=(4,) * 4),
    "verify of first tokens": replace(
        CASE, mode=ForwardMode.TARGET_VERIFY, prefix=(0, 0), new=(4, 4)
    ),
    "verify, e4m3 cache": replace(
        CASE, mode=ForwardMode.TARGET_VERIFY, prefix=(0, 1, 500), new=(4,) * 3, kv_dtype=FP8
    ),
    "draft extend": replace(
        CASE, mode=ForwardMode.DRAFT_EXTEND_V2, prefix=(0, 61, 64, 500), new=(1, 4, 2, 3)
    ),
    "extend, absorbed": replace(EXTEND, form=AttentionForm.MLA),
    "extend without a prefix": replace(EXTEND, prefix=(0, 0, 0, 0)),
    "prefix in chunks": replace(EXTEND, form=AttentionForm.MHA_CHUNKED_KV, capacity=300),
    "one shot": replace(EXTEND, form=AttentionForm.MHA_ONE_SHOT),
}


@pytest.mark.parametrize("name", CASES)
def test_every_mode(ranks: Ranks, name: str) -> None:
    found: list[Errors] = ranks.run(compare, CASES[name])
    assert len(found) == ranks.world
    for errors in found:
        assert errors.float64 <= 1e-2
        assert errors.one_rank <= 1e-2


@pytest.mark.parametrize("comm_backend", COMM_BACKENDS)
@pytest.mark.parametrize(
    ("mode", "queries"),
    [
        (ForwardMode.DECODE, 1),
        (ForwardMode.TARGET_VERIFY, 4),
        (ForwardMode.DRAFT_EXTEND_V2, 4),
    ],
    ids=["decode", "verify", "draft extend"],
)
def test_captured_and_replayed_over_changing_lengths(
    ranks: Ranks, mode: ForwardMode, queries: int, comm_backend: str
) -> None:
    """In one CUDA graph with the collectives under NCCL; gloo's steps are called."""
    first = 0 if mode is ForwardMode.DECODE else 1
    case = replace(
        CASE, mode=mode, prefix=(first,) * 3, new=(queries,) * 3, comm_backend=comm_backend
    )
    lengths = [[5, 64, 300], [1500, 0, 63], [0, 0, 0], [9, 1, 9]]
    for errors in ranks.run(replayed, case, lengths):
        assert len(errors) == len(lengths)
        assert max(errors) <= 1e-2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("heads", "parts"), [(16, 2), (24, 3), (128, 8)])
def test_packing_and_merging_equal_torch(heads: int, parts: int, dtype: torch.dtype) -> None:
    """States without a key among them, whose outputs are whatever a kernel left there."""
    generator = torch.Generator().manual_seed(1)
    out = torch.randn(5, heads, 512, generator=generator).to(dtype)
    lse = torch.randn(5, heads, generator=generator) * 4
    lse[1], lse[2, : heads // 2], out[1] = -math.inf, -math.inf, math.nan
    packed = pack_state(out, lse, parts)
    bits = pack_state(out.cuda(), lse.cuda(), parts).cpu().view(torch.int32)
    assert torch.equal(bits, packed.view(torch.int32))
    shape = (5, heads // parts, 512)
    outs, lses = unpack_states(packed, shape, dtype)
    gpu_outs, gpu_lses = unpack_states(packed.cuda(), shape, dtype)
    own = torch.randn(shape, generator=generator).to(dtype), torch.randn(shape[:2])
    for state in (None, own):
        gpu_state = None if state is None else (state[0].cuda(), state[1].cuda())
        merged = merge_states(gpu_outs, gpu_lses, gpu_state, dtype).cpu()
        expected = merge_states(outs, lses, state, dtype)
        assert relative_error(merged, expected) <= TOLERANCE[dtype]
        assert bool(merged.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, FP8])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_every_rank_stores_its_rows(world: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    slots = torch.randperm(90, generator=generator)[:40] + world
    latent, rope = (torch.randn(40, 1, d, generator=generator).bfloat16() for d in (512, 64))
    layer = MlaModelConfig().absorbed_layer(0)
    for rank in range(world):
        stored = []
        for device in ("cpu", "cuda"):
            pool = MlaKvPool(128, 4, 512, 64, 1, dtype, device)
            pool.shard = KvShard(rank, world)
            pool.set_mla_kv_buffer(layer, *(x.to(device) for x in (slots, latent, rope)))
            stored.append(pool.kv_buffer[0][1:, 0].cpu())  # row 0 is the sink
        assert torch.equal(*stored)
        assert int(stored[0].any(-1).sum()) == int((slots % world == rank).sum())
