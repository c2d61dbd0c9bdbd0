"""Linear backends under capture and replay, without a GPU: contents change, tensors do not."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from mla_guard import HookContractError
from mla_runtime import ForwardBatch, ForwardMode, GraphRecorder, ReboundTensorError
from mla_runtime.dense_reference import relative_error
from tests.runtime.linear_world import FAMILIES, LinearWorld

MODES = [ForwardMode.DECODE, ForwardMode.TARGET_VERIFY]


def padding_batch(world: LinearWorld, mode: ForwardMode, size: int) -> ForwardBatch:
    """What an engine captures with: every row is padding."""
    if mode is ForwardMode.DECODE:
        return ForwardBatch.decode([0] * size, [1] * size, [0] * size)
    return ForwardBatch.target_verify([0] * size, [1] * size, 3, [0] * (3 * size))


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("family", FAMILIES)
def test_replays_read_the_captured_tensors(family: str, mode: ForwardMode) -> None:
    world = LinearWorld(family)
    backend = world.backend()
    backend.init_cuda_graph_state(4, 12)
    recorder = GraphRecorder(backend)
    for size in (3, 2):
        recorder.capture((mode, size), padding_batch(world, mode, size))
    starts = {0: 11, 2: 4, 4: 0}
    for request, start in starts.items():
        world.draw(request, 30)
        if start:
            world.extended(backend, {request: (0, start)})
    for requests in ([0, 2, 4], [2, 0], [4, 0, 2]):
        places = {r: starts[r] for r in requests}
        tokens = 1 if mode is ForwardMode.DECODE else 3
        batch = world.decode(places) if mode is ForwardMode.DECODE else world.verify(places)
        recorder.replay((mode, len(requests)), batch)
        spans = {r: (place, place + tokens) for r, place in places.items()}
        outs = world.run(backend, batch, spans, plan=False)
        for request, (start, end) in spans.items():
            assert relative_error(outs[request], world.expected(request)[start:end]) <= 1e-5
        if mode is ForwardMode.TARGET_VERIFY:
            backend.update_mamba_state_after_mtp_verify(torch.tensor([0] * len(requests)))
        for request in requests:
            starts[request] += 1


@pytest.mark.parametrize("family", FAMILIES)
def test_a_replay_with_padding_rows(family: str) -> None:
    """A batch of one in a graph of three; the padding names request 0, which is in the batch."""
    world = LinearWorld(family)
    backend = world.backend()
    backend.init_cuda_graph_state(4, 12)
    recorder = GraphRecorder(backend)
    recorder.capture("decode", padding_batch(world, ForwardMode.DECODE, 3))
    world.draw(0, 9)
    world.extended(backend, {0: (0, 5)})
    for place in range(5, 9):
        batch = ForwardBatch.decode([0, 0, 0], [place + 1, 1, 1], [7, 0, 0])
        recorder.replay("decode", batch)
        arguments = world.inputs({0: (place, place + 1)})
        for name in {"mixed_qkv", "a", "b"} & set(arguments):
            padding = torch.full_like(arguments[name], math.nan).expand(2, -1)
            arguments[name] = torch.cat([arguments[name], padding])
        out = backend.forward(forward_batch=batch, **arguments)
        assert relative_error(out[0], world.expected(0)[place]) <= 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_the_commit_of_a_replay_leaves_its_padding_out(family: str) -> None:
    world = LinearWorld(family)
    backend = world.backend()
    backend.init_cuda_graph_state(4, 12)
    recorder = GraphRecorder(backend)
    recorder.capture("verify", padding_batch(world, ForwardMode.TARGET_VERIFY, 2))
    world.draw(0, 12)
    world.extended(backend, {0: (0, 5)})
    batch = ForwardBatch.target_verify([0, 0], [5, 1], 3, [7, 8, 9, 0, 0, 0])
    recorder.replay("verify", batch)
    arguments = world.inputs({0: (5, 8)})
    for name in {"mixed_qkv", "a", "b"} & set(arguments):
        arguments[name] = torch.cat([arguments[name], torch.zeros_like(arguments[name])])
    backend.forward(forward_batch=batch, **arguments)
    # Fewer steps than rows: only the requests that are there.
    backend.update_mamba_state_after_mtp_verify(torch.tensor([1]))
    out = world.decoded(backend, {0: 7})[0]
    assert relative_error(out[0], world.expected(0)[7]) <= 1e-5


def test_an_idle_rank_replays_a_decode_graph() -> None:
    world = LinearWorld("gdn")
    backend = world.backend()
    backend.init_cuda_graph_state(4, 4)
    recorder = GraphRecorder(backend)
    world.draw(0, 4)
    world.extended(backend, {0: (0, 3)})
    batch = padding_batch(world, ForwardMode.DECODE, 2)
    batch.forward_mode = ForwardMode.IDLE
    recorder.capture("idle first", batch)
    batch.out_cache_loc.fill_(5)
    recorder.replay("idle first", batch)
    assert backend.forward_metadata is not None
    assert backend.forward_metadata.state_indices.tolist() == [0, 0]
    recorder.replay("idle first", ForwardBatch.decode([0, 0], [4, 1], [7, 0]))
    assert backend.forward_metadata.state_indices.tolist() == [1, 0]
    assert backend.forward_metadata.has_initial_state.tolist() == [True, False]


def test_a_replay_reads_no_host_mirror() -> None:
    world = LinearWorld("kda")
    backend = world.backend()
    assert backend.needs_cpu_seq_lens is False
    assert backend.supports_cuda_graph is True
    backend.init_cuda_graph_state(4, 12)
    for mode in MODES:
        batch = padding_batch(world, mode, 2)
        batch.seq_lens_cpu = None
        backend.init_forward_metadata_out_graph(batch, in_capture=True)
        backend.init_forward_metadata_out_graph(batch)
    world.draw(0, 3)
    eager = world.extend({0: (0, 3)})
    eager.seq_lens_cpu = None
    out = world.run(backend, eager, {0: (0, 3)})[0]
    assert relative_error(out, world.expected(0)) <= 1e-5


def test_a_replay_that_rebinds_is_caught() -> None:
    world = LinearWorld("lightning")
    backend = world.backend()
    backend.init_cuda_graph_state(4, 4)
    recorder = GraphRecorder(backend)
    batch = padding_batch(world, ForwardMode.DECODE, 1)
    recorder.capture("decode", batch)
    [(key, plan)] = backend.captured_plans._by_key.items()
    backend.captured_plans._by_key[key] = dataclasses.replace(
        plan, state_indices=plan.state_indices.clone()
    )
    with pytest.raises(ReboundTensorError, match="state_indices: captured"):
        recorder.replay("decode", batch)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("max_bs", "in_capture", "words"),
    [
        (0, True, "called before init_cuda_graph_state"),
        (4, False, "no decode graph of batch size 2 was captured"),
        (1, True, "batch size 2 exceeds max_bs=1"),
    ],
)
def test_graphs_that_cannot_be(family: str, max_bs: int, in_capture: bool, words: str) -> None:
    world = LinearWorld(family)
    backend = world.backend()
    if max_bs:
        backend.init_cuda_graph_state(max_bs, max_bs)
    batch = padding_batch(world, ForwardMode.DECODE, 2)
    with pytest.raises(HookContractError, match=words):
        backend.init_forward_metadata_out_graph(batch, in_capture=in_capture)


def test_a_prefill_is_not_captured_as_one_graph() -> None:
    world = LinearWorld("gdn")
    backend = world.backend()
    backend.init_cuda_graph_state(4, 4)
    world.draw(0, 4)
    with pytest.raises(HookContractError, match="EXTEND is not captured as one graph"):
        backend.init_forward_metadata_out_graph(world.extend({0: (0, 4)}), in_capture=True)


def test_a_replay_has_the_draft_tokens_of_its_capture() -> None:
    world = LinearWorld("gdn")
    backend = world.backend()
    backend.init_cuda_graph_state(4, 12)
    backend.init_forward_metadata_out_graph(
        padding_batch(world, ForwardMode.TARGET_VERIFY, 1), in_capture=True
    )
    with pytest.raises(ValueError, match=r"captured with 3 tokens per request; the batch has 2"):
        backend.init_forward_metadata_out_graph(ForwardBatch.target_verify([0], [1], 2, [0, 0]))
