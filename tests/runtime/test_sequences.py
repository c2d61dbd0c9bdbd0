"""Passes of every kind in any order on one backend: nothing of one leaks into the next."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mla_runtime import AttentionForm, ForwardBatch, ForwardMode, captured_prefill
from mla_runtime.create import BACKENDS
from mla_runtime.dense_reference import relative_error
from mla_runtime.flashinfer_mla import FlashInferMLAAttnBackend
from tests.runtime.world import FP8, Pass, World

DRAFT = 3
KINDS = (
    "extend",
    "chunks",
    "one shot",
    "captured prefill",
    "decode",
    "verify",
    "draft extend",
    "replayed decode",
    "replayed verify",
    "replayed draft extend",
    "idle",
)
MODES = {
    "decode": ForwardMode.DECODE,
    "verify": ForwardMode.TARGET_VERIFY,
    "draft extend": ForwardMode.DRAFT_EXTEND_V2,
}
FORMS = {"chunks": AttentionForm.MHA_CHUNKED_KV, "one shot": AttentionForm.MHA_ONE_SHOT}

passes = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.lists(st.tuples(st.integers(0, 70), st.integers(1, 9)), min_size=1, max_size=3),
    ),
    min_size=2,
    max_size=6,
)


@pytest.mark.parametrize("name", BACKENDS)
@given(sequence=passes)
@settings(max_examples=15)
def test_any_order(name: str, sequence: list[tuple[str, list[tuple[int, int]]]]) -> None:
    world = World(kv_dtype=FP8 if name == "tokenspeed_mla" else None)
    world.runner.server_args = replace(world.settings, speculative_num_draft_tokens=DRAFT)
    backend = BACKENDS[name](world.runner)
    backend.init_cuda_graph_state(4, 4 * DRAFT)
    for kind, requests in sequence:
        world.forget()
        one(world, backend, kind, [p for p, _ in requests], [q for _, q in requests])


def one(
    world: World,
    backend: FlashInferMLAAttnBackend,
    kind: str,
    prefix_lens: list[int],
    q_lens: list[int],
) -> None:
    if kind == "idle":
        backend.init_forward_metadata(ForwardBatch.idle())
        return
    replayed = kind.startswith("replayed ")
    mode = MODES.get(kind.removeprefix("replayed "), ForwardMode.EXTEND)
    if mode is ForwardMode.DECODE:
        q_lens = [1] * len(q_lens)
    elif replayed or mode is ForwardMode.TARGET_VERIFY:
        q_lens = [DRAFT] * len(q_lens)
    if kind == "extend":
        prefix_lens = [0] * len(prefix_lens)
    one_pass = world.pass_of(mode, prefix_lens, q_lens)
    if kind == "captured prefill":
        with captured_prefill():
            out = one_pass.run(backend)
    elif replayed:
        backend.init_forward_metadata_out_graph(one_pass.batch, in_capture=True)
        backend.init_forward_metadata_in_graph(one_pass.batch)
        backend.init_forward_metadata_out_graph(one_pass.batch)
        out = one_pass.run(backend, plan=False)
    else:
        out = one_pass.run(backend, FORMS.get(kind), capacity=24)
    assert relative_error(out, expected(world, one_pass, kind, prefix_lens)) <= 1e-5, kind


def expected(world: World, one_pass: Pass, kind: str, prefix_lens: list[int]) -> torch.Tensor:
    if world.kv_dtype is None:
        return one_pass.expected()
    if kind in ("extend", "chunks"):
        return one_pass.expected(prefix_from_pool=True)
    if kind == "one shot":
        fresh = not any(prefix_lens)
        return one_pass.expected(prefix_from_pool=True, new_from_pool=not fresh)
    if kind == "captured prefill":
        return one_pass.expected(prefix_from_pool=True, new_from_pool=True)
    return one_pass.expected_of_fp8_query()
