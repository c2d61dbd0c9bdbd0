"""Decode context parallel over FlashInfer: two processes on one GPU, and one on each of two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from mla_runtime import AttentionForm, ForwardMode, MlaModelConfig
from tests.runtime.dcp_cases import Case, Errors, compare, replayed
from tests.runtime.ranks import Ranks
from tests.runtime.world import FP8

GPUS = torch.cuda.device_count()

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not GPUS, reason="needs an NVIDIA GPU"),
]


@pytest.fixture(scope="module", params=["gloo, one GPU", "nccl, two GPUs"])
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    if request.param == "gloo, one GPU":
        started = Ranks(2, "gloo", "cuda", seconds=300)
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
    ranks: Ranks, mode: ForwardMode, queries: int
) -> None:
    """In one CUDA graph with the collectives under NCCL; gloo's steps are called."""
    first = 0 if mode is ForwardMode.DECODE else 1
    case = replace(CASE, mode=mode, prefix=(first,) * 3, new=(queries,) * 3)
    lengths = [[5, 64, 300], [1500, 0, 63], [0, 0, 0], [9, 1, 9]]
    for errors in ranks.run(replayed, case, lengths):
        assert len(errors) == len(lengths)
        assert max(errors) <= 1e-2
