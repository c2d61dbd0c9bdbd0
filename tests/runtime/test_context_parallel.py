"""Decode context parallel over gloo: several ranks give what one rank gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from mla_runtime import AttentionForm, ForwardMode
from mla_runtime.engine.options import EngineOptions
from mla_runtime.head_exchange import COMM_BACKENDS
from tests.runtime.dcp_cases import Case, Errors, compare, engine_life, generated, replayed
from tests.runtime.ranks import Ranks
from tests.runtime.world import FP8, TOLERANCE


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
