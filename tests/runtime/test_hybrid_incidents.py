"""SGLang 0.5.12's stale plan behind a hybrid wrapper (pull request 27316), with its figures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mla_runtime import (
    AttentionBackend,
    EngineSettings,
    ForwardMode,
    HybridLinearAttnBackend,
)
from mla_runtime.create import BACKENDS
from mla_runtime.dense_reference import relative_error
from tests.runtime.composites import PagedOnly
from tests.runtime.world import FP8, SMALL, World

if TYPE_CHECKING:
    from tests.runtime.world import Pass

PLANNED = [88] * 8 + [96]
EXTENDED = [913] * 8 + [914]
PREFIXES = [64] * 9
INCIDENT = (
    r"^q\.shape\[0\] \(8218\) does not match qo_indptr\[-1\] \(800\)\. For ragged prefill, q must "
    r"have shape \[total_tokens, num_heads, head_dim\] where total_tokens = qo_indptr\[-1\]\.$"
)


class Lost(HybridLinearAttnBackend):
    """Forgets one hook, as a wrapper without it does where callers probe with ``hasattr``."""

    lost = ""

    def init_mha_chunk_metadata(self, forward_batch: Any, *args: Any, **kwargs: Any) -> None:
        if self.lost != "init_mha_chunk_metadata":
            super().init_mha_chunk_metadata(forward_batch, *args, **kwargs)

    def init_forward_metadata(self, forward_batch: Any) -> None:
        if self.lost != "init_forward_metadata":
            super().init_forward_metadata(forward_batch)


def world_of(name: str) -> World:
    config = replace(SMALL, num_attention_heads=1, kv_lora_rank=8, context_len=1024)
    settings = EngineSettings(chunked_prefix_cache_threshold=1)
    return World(
        config=config,
        settings=settings,
        kv_dtype=FP8 if name == "tokenspeed_mla" else None,
        pages=10 * 32,
    )


def wrapped(cls: type[HybridLinearAttnBackend], name: str, world: World) -> HybridLinearAttnBackend:
    full = BACKENDS[name](world.runner)
    return cls(full, PagedOnly(world.runner), [world.layer_id])


def incident(world: World, backend: AttentionBackend, prefixes: list[int]) -> tuple[Pass, Any]:
    """A plan for 800 tokens, and then a batch of 8,218."""
    world.pass_of(ForwardMode.EXTEND, [0] * 9, PLANNED).run(backend)
    world.forget()
    one_pass = world.pass_of(ForwardMode.EXTEND, prefixes, EXTENDED)
    assert one_pass.q_nope.shape[0] == 8218
    return one_pass, one_pass.run(backend)


@pytest.mark.parametrize("name", ["torch", "flashinfer"])
def test_without_the_chunk_hook_the_plan_is_stale(name: str) -> None:
    """The incident itself: the prefix is expanded in one shot, which only that hook plans."""
    world = world_of(name)
    backend = wrapped(Lost, name, world)
    backend.lost = "init_mha_chunk_metadata"  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=INCIDENT):
        incident(world, backend, PREFIXES)


@pytest.mark.parametrize("name", BACKENDS)
def test_without_the_metadata_hook_the_plan_is_stale(name: str) -> None:
    """The block-table backends plan a prefill in this hook alone, the others without a prefix."""
    world = world_of(name)
    backend = wrapped(Lost, name, world)
    world.pass_of(ForwardMode.EXTEND, [0] * 9, PLANNED).run(backend)
    world.forget()
    backend.lost = "init_forward_metadata"  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=INCIDENT):
        world.pass_of(ForwardMode.EXTEND, [0] * 9, EXTENDED).run(backend)


@pytest.mark.parametrize("prefixes", [PREFIXES, [0] * 9], ids=["prefix", "no prefix"])
@pytest.mark.parametrize("name", BACKENDS)
def test_through_the_wrapper_it_is_planned(name: str, prefixes: list[int]) -> None:
    world = world_of(name)
    one_pass, out = incident(world, wrapped(HybridLinearAttnBackend, name, world), prefixes)
    expected = one_pass.expected(prefix_from_pool=True)
    assert relative_error(out, expected) <= 1e-5
