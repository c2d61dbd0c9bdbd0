"""Capture and replay of every backend without a GPU: no replay rebinds a captured tensor."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from itertools import product

import pytest
import torch

from mla_guard import HookContractError
from mla_runtime import (
    ForwardMode,
    GraphRecorder,
    ReboundTensorError,
    TorchMLABackend,
    TRTLLMMLABackend,
    create_draft_backend,
    split_batch,
)
from mla_runtime.create import BACKENDS
from mla_runtime.dense_reference import relative_error
from mla_runtime.flashinfer_mla import DecodeMetadata
from tests.runtime.composites import CHAINS, build
from tests.runtime.world import FP8, World

DRAFT = 3
MODES = [ForwardMode.DECODE, ForwardMode.TARGET_VERIFY, ForwardMode.DRAFT_EXTEND_V2]


def world_for(name: str) -> World:
    world = World(kv_dtype=FP8 if name == "tokenspeed_mla" else None)
    world.runner.server_args = replace(world.settings, speculative_num_draft_tokens=DRAFT)
    return world


def queries(mode: ForwardMode) -> int:
    return 1 if mode is ForwardMode.DECODE else DRAFT


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("name", BACKENDS)
def test_replays_of_every_length_read_the_captured_tensors(name: str, mode: ForwardMode) -> None:
    world = world_for(name)
    backend = BACKENDS[name](world.runner)
    backend.init_cuda_graph_state(8, 8 * DRAFT)
    recorder = GraphRecorder(backend)
    q = queries(mode)
    for size in (4, 2, 1):
        fill = [backend.get_cuda_graph_seq_len_fill_value()] * size
        prefix = fill if mode is ForwardMode.TARGET_VERIFY else [0] * size
        batch = world.batch(mode, [0] * size, prefix, [q] * size, [0] * (q * size))
        if mode is ForwardMode.DRAFT_EXTEND_V2:
            # Padding rows have one key, fewer than their queries.
            batch.seq_lens, batch.seq_lens_cpu = torch.ones(size).int(), torch.ones(size).int()
        recorder.capture((mode, size), batch)
    for lengths in ([5, 31], [120, 1], [33, 64]):
        world.forget()
        one_pass = world.pass_of(mode, lengths, [q] * len(lengths))
        recorder.replay((mode, 2), one_pass.batch)
        out = one_pass.run(backend, plan=False)
        fp8_query = world.kv_dtype is not None
        expected = one_pass.expected_of_fp8_query() if fp8_query else one_pass.expected()
        assert relative_error(out, expected) <= 1e-5, lengths


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("chain", CHAINS, ids=" > ".join)
def test_replays_through_composites(chain: tuple[str, ...], name: str) -> None:
    """Decode and verify are planned on other children; each replay finds its own capture."""
    world = world_for(name)
    backend = build(chain, world, BACKENDS[name]).backend
    backend.init_cuda_graph_state(8, 8 * DRAFT)
    recorder = GraphRecorder(backend)
    for mode, q in ((ForwardMode.TARGET_VERIFY, DRAFT), (ForwardMode.DECODE, 1)):
        prefix = [1, 1] if mode is ForwardMode.TARGET_VERIFY else [0, 0]
        batch = world.batch(mode, [0, 0], prefix, [q, q], [0] * 2 * q)
        recorder.capture(mode, replace(batch, tbo_children=split_batch(batch)))
    for mode, lengths in product(
        (ForwardMode.DECODE, ForwardMode.TARGET_VERIFY), ([5, 31], [64, 1])
    ):
        world.forget()
        one_pass = world.pass_of(mode, lengths, [queries(mode)] * 2)
        recorder.replay(mode, one_pass.batch)
        out = one_pass.run(backend, plan=False)
        fp8_query = world.kv_dtype is not None
        expected = one_pass.expected_of_fp8_query() if fp8_query else one_pass.expected()
        assert relative_error(out, expected) <= 1e-5


@pytest.mark.parametrize("name", BACKENDS)
def test_replays_of_the_draft_chain_read_the_captured_tensors(name: str) -> None:
    world = world_for(name)
    draft = create_draft_backend(name, world.runner, 1, 4)
    draft.init_cuda_graph_state(4, 4)
    recorder = GraphRecorder(draft)
    short = world.batch(ForwardMode.DECODE, [0, 0], [0, 0], [1, 1], [0, 0])
    recorder.capture("chain", short)
    for lengths in ([5, 31], [120, 64]):
        batch = world.batch(ForwardMode.DECODE, [0, 1], lengths, [1, 1], [0, 0])
        recorder.replay("chain", batch)
        for step, backend in enumerate(draft.attn_backends):
            planned = [n + 1 + step + 1 for n in lengths]
            if isinstance(backend, TRTLLMMLABackend):
                assert backend.forward_decode_metadata is not None
                assert backend.forward_decode_metadata.seq_lens_k.tolist() == planned
            else:
                assert backend.cuda_graph_buffers is not None
                assert backend.cuda_graph_buffers.kv_len[:2].tolist() == planned


def test_a_replay_that_rebinds_is_caught() -> None:
    class Rebinding(TRTLLMMLABackend):
        def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):  # type: ignore[no-untyped-def]
            super().init_forward_metadata_out_graph(forward_batch, in_capture)
            if not in_capture:
                assert self.forward_decode_metadata is not None
                self.forward_decode_metadata = dataclasses.replace(
                    self.forward_decode_metadata,
                    seq_lens_k=self.forward_decode_metadata.seq_lens_k.clone(),
                )

    world = world_for("trtllm_mla")
    backend = Rebinding(world.runner)
    backend.init_cuda_graph_state(4, 4)
    recorder = GraphRecorder(backend)
    batch = world.batch(ForwardMode.DECODE, [0], [0], [1], [0])
    recorder.capture("decode", batch)
    with pytest.raises(ReboundTensorError, match=r"seq_lens_k: captured"):
        recorder.replay("decode", batch)


def test_a_planner_that_rebinds_its_buffers_is_caught() -> None:
    world = world_for("torch")
    backend = TorchMLABackend(world.runner)
    backend.init_cuda_graph_state(4, 4)
    recorder = GraphRecorder(backend)
    batch = world.batch(ForwardMode.DECODE, [0], [0], [1], [0])
    recorder.capture("decode", batch)
    assert isinstance(backend.forward_metadata, DecodeMetadata)
    planner = backend.forward_metadata.decode_wrapper
    planner.graph_buffers = replace(  # type: ignore[attr-defined]
        planner.graph_buffers,  # type: ignore[attr-defined]
        kv_indptr=planner.graph_buffers.kv_indptr.clone(),  # type: ignore[attr-defined]
    )
    with pytest.raises(ReboundTensorError, match="kv_indptr"):
        recorder.replay("decode", batch)


def test_a_backend_without_metadata_is_no_success() -> None:
    class Silent(TorchMLABackend):
        def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):  # type: ignore[no-untyped-def]
            self.forward_metadata = None

    world = world_for("torch")
    backend = Silent(world.runner)
    backend.init_cuda_graph_state(4, 4)
    with pytest.raises(ReboundTensorError, match="nothing was frozen"):
        GraphRecorder(backend).capture(
            "decode", world.batch(ForwardMode.DECODE, [0], [0], [1], [0])
        )


@pytest.mark.parametrize("name", BACKENDS)
def test_a_replay_without_capture_is_refused(name: str) -> None:
    world = world_for(name)
    backend = BACKENDS[name](world.runner)
    backend.init_cuda_graph_state(4, 4)
    batch = world.batch(ForwardMode.DECODE, [0], [0], [1], [0])
    with pytest.raises(HookContractError, match="no decode graph of batch size 1 was captured"):
        backend.init_forward_metadata_out_graph(batch)


@pytest.mark.parametrize("name", BACKENDS)
def test_an_idle_rank_replays_a_decode_graph(name: str) -> None:
    world = world_for(name)
    backend = BACKENDS[name](world.runner)
    backend.init_cuda_graph_state(4, 4)
    recorder = GraphRecorder(backend)
    batch = world.batch(ForwardMode.DECODE, [0, 0], [0, 0], [1, 1], [0, 0])
    recorder.capture("decode", batch)
    batch.forward_mode = ForwardMode.IDLE
    recorder.replay("decode", batch)


def test_block_table_backends_allocate_no_index_buffer_that_they_never_read() -> None:
    world = world_for("trtllm_mla")
    backend = TRTLLMMLABackend(world.runner)
    backend.init_cuda_graph_state(4, 4 * DRAFT)
    for mode in MODES:
        q = queries(mode)
        batch = world.batch(mode, [0], [1], [q], [0] * q)
        backend.init_forward_metadata_out_graph(batch, in_capture=True)
    assert backend.cuda_graph_buffers is None
    assert backend.cuda_graph_kv_indices is None


def test_supplied_kv_indices_are_the_ones_that_graphs_read() -> None:
    world = world_for("torch")
    backend = TorchMLABackend(world.runner)
    given = torch.zeros(4 * 256, dtype=torch.int32)
    backend.init_cuda_graph_state(4, 4, given)
    batch = world.batch(ForwardMode.DECODE, [0], [38], [1], [0])
    world.req_to_token.req_to_token[0, :64] = torch.cat(
        [torch.arange(96, 128), torch.arange(32, 64)]
    )
    backend.init_forward_metadata_out_graph(batch, in_capture=True)
    assert given[:4].tolist() == [3, 1, 0, 0]


@pytest.mark.parametrize("name", BACKENDS)
def test_a_capture_before_the_graph_state_is_refused(name: str) -> None:
    world = world_for(name)
    backend = BACKENDS[name](world.runner)
    batch = world.batch(ForwardMode.DECODE, [0], [0], [1], [0])
    with pytest.raises(HookContractError, match="init_cuda_graph_state"):
        backend.init_forward_metadata_out_graph(batch, in_capture=True)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_capture_beyond_max_bs_is_refused(name: str) -> None:
    world = world_for(name)
    backend = BACKENDS[name](world.runner)
    backend.init_cuda_graph_state(1, 1)
    batch = world.batch(ForwardMode.DECODE, [0, 0], [0, 0], [1, 1], [0, 0])
    with pytest.raises(HookContractError, match="batch size 2 exceeds max_bs=1"):
        backend.init_forward_metadata_out_graph(batch, in_capture=True)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_prefill_is_not_captured_as_one_graph(name: str) -> None:
    world = world_for(name)
    backend = BACKENDS[name](world.runner)
    backend.init_cuda_graph_state(4, 4)
    batch = world.batch(ForwardMode.EXTEND, [0], [0], [4], [0] * 4)
    with pytest.raises(HookContractError, match="captured_prefill"):
        backend.init_forward_metadata_out_graph(batch, in_capture=True)


def test_only_the_planned_backends_need_the_host_mirror_on_replay() -> None:
    for name, backend_class in BACKENDS.items():
        world = world_for(name)
        backend = backend_class(world.runner)
        backend.init_cuda_graph_state(4, 4)
        batch = world.batch(ForwardMode.DECODE, [0], [0], [1], [0])
        backend.init_forward_metadata_out_graph(batch, in_capture=True)
        batch.seq_lens_cpu = None
        if backend.needs_cpu_seq_lens:
            with pytest.raises(HookContractError, match="seq_lens_cpu"):
                backend.init_forward_metadata_out_graph(batch)
        else:
            backend.init_forward_metadata_out_graph(batch)


@pytest.mark.parametrize("mode", [ForwardMode.TARGET_VERIFY, ForwardMode.DRAFT_EXTEND_V2])
def test_a_captured_speculative_pass_needs_its_number_of_tokens(mode: ForwardMode) -> None:
    world = World()
    backend = TRTLLMMLABackend(world.runner)
    backend.init_cuda_graph_state(4, 4)
    batch = world.batch(mode, [0], [1], [DRAFT], [0] * DRAFT)
    with pytest.raises(ValueError, match=r"speculative_num_draft_tokens.*is None"):
        backend.init_forward_metadata_out_graph(batch, in_capture=True)


def test_captured_tensors_outlive_a_growing_batch_of_graphs() -> None:
    """Graphs of several sizes share one block table: the small one must not move it."""
    world = world_for("trtllm_mla")
    backend = TRTLLMMLABackend(world.runner)
    backend.init_cuda_graph_state(4, 4)
    pointers = []
    for size in (4, 1, 3):
        batch = world.batch(ForwardMode.DECODE, [0] * size, [0] * size, [1] * size, [0] * size)
        backend.init_forward_metadata_out_graph(batch, in_capture=True)
        assert backend.forward_decode_metadata is not None
        pointers.append(backend.forward_decode_metadata.block_kv_indices.data_ptr())
    assert backend.decode_cuda_graph_kv_indices is not None
    assert pointers == [backend.decode_cuda_graph_kv_indices.data_ptr()] * 3
