"""SGLang's own batches and modes go through every backend's hooks, with the right numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mla_runtime import AttentionForm, ForwardMode, create_draft_backend
from mla_runtime.create import BACKENDS
from mla_runtime.dense_reference import relative_error
from tests.field.wheels import unpacked
from tests.runtime.engine_objects import EngineObjects, engine_objects
from tests.runtime.world import FP8, World

pytestmark = pytest.mark.field

CASES: dict[str, tuple[str, ForwardMode, list[int], list[int], AttentionForm | None]] = {
    "extend": ("EXTEND", ForwardMode.EXTEND, [0, 0], [7, 3], None),
    "split prefill": ("SPLIT_PREFILL", ForwardMode.EXTEND, [0, 0], [7, 3], None),
    "mixed": ("MIXED", ForwardMode.EXTEND, [33, 40], [5, 1], AttentionForm.MHA_ONE_SHOT),
    "chunks": ("EXTEND", ForwardMode.EXTEND, [33, 0], [5, 2], AttentionForm.MHA_CHUNKED_KV),
    "decode": ("DECODE", ForwardMode.DECODE, [33, 5], [1, 1], None),
    "verify": ("TARGET_VERIFY", ForwardMode.TARGET_VERIFY, [33, 5], [3, 3], None),
    "draft extend": ("DRAFT_EXTEND_V2", ForwardMode.DRAFT_EXTEND_V2, [33, 5], [3, 1], None),
}


@pytest.fixture(scope="module", params=["0.5.13", "0.5.23"])
def engine(request: pytest.FixtureRequest) -> EngineObjects:
    return engine_objects(unpacked("sglang", request.param))


def world_for(name: str) -> World:
    world = World(kv_dtype=FP8 if name == "tokenspeed_mla" else None)
    world.runner.server_args = replace(world.settings, speculative_num_draft_tokens=3)
    return world


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", BACKENDS)
def test_their_batch_through_the_eager_hooks(engine: EngineObjects, name: str, case: str) -> None:
    their_mode, mode, prefix_lens, q_lens, form = CASES[case]
    world = world_for(name)
    one_pass = world.pass_of(mode, prefix_lens, q_lens)
    one_pass.batch = engine.of(one_pass.batch, their_mode)
    out = one_pass.run(BACKENDS[name](world.runner), form, capacity=24)
    fp8 = world.kv_dtype is not None
    if fp8 and mode is not ForwardMode.EXTEND:
        expected = one_pass.expected_of_fp8_query()
    else:
        one_shot = form is AttentionForm.MHA_ONE_SHOT
        expected = one_pass.expected(prefix_from_pool=fp8, new_from_pool=fp8 and one_shot)
    assert relative_error(out, expected) <= 1e-5


@pytest.mark.parametrize("case", ["decode", "verify"])
@pytest.mark.parametrize("name", BACKENDS)
def test_their_batch_through_the_graph_hooks(engine: EngineObjects, name: str, case: str) -> None:
    their_mode, mode, prefix_lens, q_lens, _ = CASES[case]
    world = world_for(name)
    one_pass = world.pass_of(mode, prefix_lens, q_lens)
    one_pass.batch = engine.of(one_pass.batch, their_mode)
    backend = BACKENDS[name](world.runner)
    backend.init_cuda_graph_state(4, 12)
    backend.init_forward_metadata_out_graph(one_pass.batch, in_capture=True)
    backend.init_forward_metadata_in_graph(one_pass.batch)
    backend.init_forward_metadata_out_graph(one_pass.batch)
    out = one_pass.run(backend, plan=False)
    fp8 = world.kv_dtype is not None
    expected = one_pass.expected_of_fp8_query() if fp8 else one_pass.expected()
    assert relative_error(out, expected) <= 1e-5


@pytest.mark.parametrize("name", BACKENDS)
def test_their_idle_batch(engine: EngineObjects, name: str) -> None:
    world = world_for(name)
    batch = engine.of(world.batch(ForwardMode.DECODE, [0, 0], [0, 0], [1, 1], [0, 0]), "IDLE")
    backend = BACKENDS[name](world.runner)
    backend.init_forward_metadata(batch)
    out = backend.forward(torch.zeros(2, 160), None, None, world.core.absorbed, batch)
    assert isinstance(out, torch.Tensor)
    assert out.shape == (2, 128)


@pytest.mark.parametrize("name", BACKENDS)
def test_their_batch_through_the_draft_chain(engine: EngineObjects, name: str) -> None:
    world = world_for(name)
    batch = engine.of(world.batch(ForwardMode.DECODE, [0, 1], [4, 9], [1, 1], [0, 0]))
    draft = create_draft_backend(name, world.runner, 1, 4)
    draft.init_forward_metadata(batch)
    draft.init_cuda_graph_state(4, 4)
    draft.init_forward_metadata_out_graph(batch, in_capture=True)
    draft.init_forward_metadata_in_graph(batch)
    draft.init_forward_metadata_out_graph(batch)
    assert len(draft.attn_backends) == 3
    assert batch.seq_lens.tolist() == [5, 10]


def test_only_0_5_13_has_the_first_draft_extend(engine: EngineObjects) -> None:
    """The mode was removed between the two; the phase is found by name in both."""
    names = {mode.name for mode in engine.ForwardMode}
    assert {"EXTEND", "DECODE", "TARGET_VERIFY", "DRAFT_EXTEND_V2", "IDLE", "MIXED"} <= names
    if "DRAFT_EXTEND" not in names:
        return
    world = world_for("trtllm_mla")
    one_pass = world.pass_of(ForwardMode.DRAFT_EXTEND_V2, [33, 5], [3, 1])
    one_pass.batch = engine.of(one_pass.batch, "DRAFT_EXTEND")
    assert one_pass.error(one_pass.run(BACKENDS["trtllm_mla"](world.runner))) <= 1e-5
