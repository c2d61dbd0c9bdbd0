"""Decode context parallel over gloo: several ranks give what one rank gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from mla_runtime import AttentionForm, ForwardMode
from mla_runtime.create import BACKENDS
from mla_runtime.engine.options import EngineOptions
from mla_runtime.head_exchange import COMM_BACKENDS
from tests.runtime.dcp_cases import (
    Case,
    Errors,
    compare,
    engine_life,
    fail_on_rank,
    generated,
    hang,
    in_pairs,
    refusals,
    replayed,
)
from tests.runtime.ranks import RankFailedError, Ranks
from tests.runtime.test_adapters import TWELVE
from tests.runtime.world import FP8, TOLERANCE, with_heads


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    started = Ranks(request.param)
    yield started
    started.close()


MODES = {
    "decode": Case(ForwardMode.DECODE, (0, 1, 2, 3, 7, 40), (1,) * 6),
    "decode of one token on one rank": Case(ForwardMode.DECODE, (0,), (1,)),
    "verify": Case(ForwardMode.TARGET_VERIFY, (0, 1, 6, 33), (4,) * 4),
    "verify of first tokens": Case(ForwardMode.TARGET_VERIFY, (0, 0), (3, 3)),
    "draft extend": Case(ForwardMode.DRAFT_EXTEND_V2, (0, 1, 9, 30), (2, 1, 4, 3)),
    "extend, absorbed": Case(ForwardMode.EXTEND, (0, 1, 5, 40), (5, 1, 30, 2), AttentionForm.MLA),
    "extend without a prefix": Case(ForwardMode.EXTEND, (0, 0, 0), (1, 9, 30)),
    "prefix in chunks": Case(
        ForwardMode.EXTEND, (0, 1, 5, 40), (5, 1, 30, 2), AttentionForm.MHA_CHUNKED_KV, 20
    ),
    "one shot": Case(ForwardMode.EXTEND, (0, 1, 5, 40), (5, 1, 30, 2), AttentionForm.MHA_ONE_SHOT),
}


def worst(ranks: Ranks, case: Case) -> float:
    found: list[Errors] = ranks.run(compare, case)
    assert len(found) == ranks.world
    return max(error for e in found for error in (e.float64, e.one_rank))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("comm_backend", COMM_BACKENDS)
def test_every_mode(ranks: Ranks, comm_backend: str, mode: str) -> None:
    assert worst(ranks, replace(MODES[mode], comm_backend=comm_backend)) <= 1e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", MODES)
def test_16_bit(ranks: Ranks, mode: str, dtype: torch.dtype) -> None:
    assert worst(ranks, replace(MODES[mode], dtype=dtype)) <= TOLERANCE[dtype]


@pytest.mark.parametrize("mode", MODES)
def test_fp8_cache(ranks: Ranks, mode: str) -> None:
    assert worst(ranks, replace(MODES[mode], dtype=torch.bfloat16, kv_dtype=FP8)) <= 1e-2


@pytest.mark.parametrize("release", ["0.6.18.post1", "0.7.4"])
@pytest.mark.parametrize("comm_backend", COMM_BACKENDS)
def test_over_the_flashinfer_adapter(ranks: Ranks, comm_backend: str, release: str) -> None:
    """Its stand-in counts in base 2 unless told otherwise; 12 heads are padded where causal."""
    for mode in ("decode", "verify", "draft extend", "extend, absorbed"):
        case = replace(
            MODES[mode],
            config=TWELVE,
            backend=release,
            dtype=torch.bfloat16,
            comm_backend=comm_backend,
        )
        assert worst(ranks, case) <= 1e-2


CAPTURED = {
    "decode": Case(ForwardMode.DECODE, (0, 0, 0), (1, 1, 1)),
    "verify": Case(ForwardMode.TARGET_VERIFY, (1, 1, 1), (4, 4, 4)),
    "draft extend": Case(ForwardMode.DRAFT_EXTEND_V2, (1, 1, 1), (4, 4, 4)),
}


@pytest.mark.parametrize("mode", CAPTURED)
def test_replays_over_changing_lengths(ranks: Ranks, mode: str) -> None:
    lengths = [[1, 2, 3], [40, 0, 9], [0, 0, 0], [5, 130, 4]]
    for errors in ranks.run(replayed, CAPTURED[mode], lengths):
        assert len(errors) == len(lengths)
        assert max(errors) <= 1e-5


ENGINE = EngineOptions(requests=3, prompt=20, page_size=4, heads=4)


@pytest.mark.parametrize("model", ["mla", "kimi-linear"])
def test_the_tiny_engine(ranks: Ranks, model: str) -> None:
    for phases in ranks.run(engine_life, replace(ENGINE, model=model)):
        assert {"prefill", "prefix-cached prefill", "decode", "target verify"} <= set(phases)
        assert phases["prefix-cached prefill"][0] == "MHA_CHUNKED_KV"
        assert max(error for _, error in phases.values()) <= 1e-5


@pytest.mark.parametrize("chunk", [None, 7])
@pytest.mark.parametrize(
    "options",
    [
        ENGINE,
        replace(ENGINE, speculative=3),
        replace(ENGINE, model="ring", speculative=2, split_prefill_decode=True, tbo=True),
    ],
    ids=["plain", "with drafts", "every composite"],
)
def test_the_engine_generates_the_tokens_of_one_rank(
    ranks: Ranks, options: EngineOptions, chunk: int | None
) -> None:
    for sharded, whole, accepted in ranks.run(generated, options, chunk):
        assert sharded == whole
        assert [len(tokens) for tokens in sharded] == [12] * 3
        assert (accepted > 0) == (options.speculative > 0)


def test_pairs_of_ranks_share_a_cache_and_all_split_the_heads(ranks: Ranks) -> None:
    """Heads split over more ranks than a cache: neighbours share one, pairs hold copies."""
    for errors in ranks.run(in_pairs, MODES["verify"]):
        assert max(errors.float64, errors.one_rank) <= 1e-5


def test_three_ranks() -> None:
    three = Ranks(3)
    try:
        for mode in ("decode", "verify", "prefix in chunks"):
            assert worst(three, replace(MODES[mode], config=with_heads(6))) <= 1e-5
    finally:
        three.close()


def test_a_rank_that_fails_or_hangs_fails_the_case_and_not_the_next() -> None:
    two = Ranks(2, seconds=5)
    try:
        with pytest.raises(RankFailedError, match=r"rank 1:(?s:.)*ZeroDivisionError"):
            two.run(fail_on_rank, 1)
        with pytest.raises(RankFailedError, match=r"hang, rank 0:|hang: ranks \[0, 1\] of 2"):
            two.run(hang)
        assert two.run(fail_on_rank, 7) == [0, 0]
    finally:
        two.close()


def test_what_is_not_served_is_refused_by_name(ranks: Ranks) -> None:
    world = ranks.world
    for rank, said in enumerate(ranks.run(refusals)):
        for name in ("trtllm_mla", "cutedsl_mla", "tokenspeed_mla"):
            assert said.pop(name) == (
                f"{BACKENDS[name].__name__} reads a whole cache; dcp_group shards it over {world} "
                f"ranks. Use FlashInferMLAAttnBackend or TorchMLABackend"
            )
        assert said == {
            "heads that are not split": f"dcp_group has {world} ranks and the attention's "
            f"tensor-parallel size is 1; the ranks that share a cache must be ranks that split "
            f"the heads, expected a multiple of {world}",
            "a pool of one rank": f"token_to_kv_pool is rank {rank} of {world} of a sharded cache, "
            f"dcp_group makes this process rank 0 of 1",
            "a whole pool": f"token_to_kv_pool is rank 0 of 1 of a sharded cache, dcp_group makes "
            f"this process rank {rank} of {world}",
            "a group of others": "dcp_group does not contain this process",
            "another exchange": "dcp_comm_backend='ring'; expected one of a2a, ag, ag_rs",
            "verify without k": "layer 1: k is None; over a cache that is sharded by decode "
            "context parallel, a pass of several tokens per request attends its own latent rows "
            "from k",
            "a draft tree": "spec_info.topk=2: the MLA kernels verify a chain of drafts, expected "
            "topk=1",
        }
