"""Decode context parallel over gloo: several ranks give what one rank gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from mla_runtime import AttentionForm, ForwardMode
from mla_runtime.head_exchange import COMM_BACKENDS
from tests.runtime.dcp_cases import Case, Errors, compare, replayed
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
