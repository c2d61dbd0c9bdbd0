"""Whole models through whole lives: against float64, and token for token the same every way."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch

from mla_runtime import ForwardMode
from mla_runtime.create import BACKENDS
from mla_runtime.engine.engine import TinyEngine
from mla_runtime.engine.generate import Generation, generate
from mla_runtime.engine.options import LAYOUTS, EngineOptions
from mla_runtime.engine.phases import phase_reports
from mla_runtime.engine.reference import DenseModel

MODELS = list(LAYOUTS)
PROMPTS = [23, 40, 5]
COUNT = 14
WAYS = [
    {"speculative": n, "split_prefill_decode": split, "tbo": tbo}
    for n, split, tbo in product([0, 1, 3], [False, True], [False, True])
]


def options_of(model: str, **given: object) -> EngineOptions:
    plain = EngineOptions(model, heads=2, requests=3, prompt=18, page_size=32, backend="torch")
    return replace(plain, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("tbo", [False, True], ids=["whole", "halves"])
@pytest.mark.parametrize("model", MODELS)
def test_every_phase_against_float64(model: str, tbo: bool) -> None:
    """Prefill, a cached prefix in chunks, decode, verify, and decode on what was accepted."""
    reports = phase_reports(TinyEngine(options_of(model, tbo=tbo, speculative=3)))
    assert [r.phase for r in reports][:5] == [
        "prefill", "prefix-cached prefill", "decode", "target verify", "decode after verify",
    ]  # fmt: skip
    assert reports[1].form == "MHA_CHUNKED_KV"
    assert max(r.error for r in reports) <= 1e-5


@cache
def generated(model: str) -> tuple[Generation, list[list[int]]]:
    """What one token per pass gives, and the prompts, each read in two passes."""
    engine = TinyEngine(options_of(model))
    prompts = engine.random_tokens(PROMPTS)
    return generate(engine, prompts, COUNT, chunk=32), prompts


@pytest.mark.parametrize("model", MODELS)
def test_greedy_decoding_is_that_of_the_float64_model(model: str) -> None:
    plain, prompts = generated(model)
    reference = DenseModel(TinyEngine(options_of(model)).model)
    for prompt, tokens in zip(prompts, plain.tokens, strict=True):
        logits = reference.logits(prompt + tokens)[len(prompt) - 1 : -1]
        assert logits.argmax(-1).tolist() == tokens


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
@pytest.mark.parametrize("model", MODELS)
def test_every_way_gives_the_same_tokens(model: str, way: dict[str, object]) -> None:
    plain, prompts = generated(model)
    found = generate(TinyEngine(options_of(model, **way)), prompts, COUNT, chunk=32)
    assert found.tokens == plain.tokens
    if way["speculative"]:
        assert found.passes <= plain.passes


@pytest.mark.parametrize("model", MODELS)
def test_drafts_are_accepted_and_rejected(model: str) -> None:
    """Both must happen, or the roll-back of the states is not tried."""
    _, prompts = generated(model)
    drafted = generate(TinyEngine(options_of(model, speculative=3)), prompts, COUNT, chunk=32)
    assert 0 < drafted.accepted < drafted.drafted


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_under_the_hybrid_model(backend: str) -> None:
    fp8 = torch.float8_e4m3fn if backend == "tokenspeed_mla" else None
    options = options_of(
        "kimi-linear", backend=backend, kv_dtype=fp8, tbo=True, split_prefill_decode=True,
        speculative=2,
    )  # fmt: skip
    reports = phase_reports(TinyEngine(options))
    # The reference knows nothing of an fp8 cache, whose rounding is the error here.
    assert max(r.error for r in reports) <= (5e-3 if fp8 else 1e-5)


@pytest.mark.parametrize("model", ["ring", "kimi-linear", "gated-delta-net"])
def test_a_prefix_hit_starts_from_a_copy_of_the_state(model: str) -> None:
    """One request reads a prompt; another takes over its pages and state, and both go on."""
    engine = TinyEngine(options_of(model, requests=2, page_size=16))
    prompt, other = engine.random_tokens([32, 7])
    engine.forward(ForwardMode.EXTEND, [prompt, other])
    engine.requests.append([prompt, other])
    engine.take_prefix(source=0, target=1)
    new = engine.random_tokens([3, 5])
    out = engine.forward(ForwardMode.EXTEND, new)
    reference = DenseModel(engine.model)
    expected = [reference.logits(prompt + tokens)[32:] for tokens in new]
    for got, wanted in zip(torch.split(out.logits, [3, 5]), expected, strict=True):
        assert (got - wanted).norm() / wanted.norm() <= 1e-5


def test_a_page_that_both_would_write_is_not_shared() -> None:
    engine = TinyEngine(options_of("mla", requests=2, page_size=16))
    new = engine.random_tokens([20, 4])
    engine.forward(ForwardMode.EXTEND, new)
    engine.requests.append(new)
    with pytest.raises(ValueError, match="request 0 has 20 tokens; only full pages of 16 can"):
        engine.take_prefix(source=0, target=1)
