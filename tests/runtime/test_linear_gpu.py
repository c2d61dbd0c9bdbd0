"""The linear backends on an NVIDIA GPU, fla-core's kernels and torch's, against the reference."""

from __future__ import annotations

import math

import pytest
import torch

from mla_runtime import ForwardBatch, ForwardMode, GraphRecorder, LinearAttnBackend
from mla_runtime.dense_reference import relative_error
from mla_runtime.linear.delta_rule import DeltaInputs, recurrent
from mla_runtime.linear.fla_kernels import FlaLinearKernels, installed_version, load_fla
from mla_runtime.linear.kernels import LinearKernels, TorchLinearKernels
from mla_runtime.linear.sequences import Sequences
from tests.runtime.linear_world import FAMILIES, LinearWorld

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

DEVICE = "cuda"
KERNELS = ["fla", "torch"]


def kernels_of(name: str) -> LinearKernels:
    if name == "torch":
        return TorchLinearKernels()
    version = installed_version()
    assert version is not None, "fla-core is not installed; install mla-guard[linear]"
    return FlaLinearKernels(load_fla(version))


def tolerance(dtype: torch.dtype, name: str) -> float:
    """fla-core's chunked kernels multiply float32 as TF32, and keep the states of 16 bit in 16."""
    if dtype == torch.bfloat16:
        return 1e-2
    return 5e-3 if name == "fla" else 1e-5


def world_of(family: str, dtype: torch.dtype = torch.bfloat16) -> LinearWorld:
    return LinearWorld(
        family,
        key_heads=2,
        value_heads=4,
        key_size=64,
        value_size=128,
        dtype=dtype,
        device=DEVICE,
    )


def backend_of(world: LinearWorld, name: str) -> LinearAttnBackend:
    return FAMILIES[world.family](world.runner, kernels=kernels_of(name))


def inputs_of(family: str, tokens: int, decay: float, dtype: torch.dtype) -> DeltaInputs:
    generator = torch.Generator().manual_seed(tokens)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    def unit() -> torch.Tensor:
        return torch.nn.functional.normalize(randn(tokens, 2, 64), dim=-1).to(dtype)

    log_decay = -randn(tokens, 4, 64 if family == "kda" else 1).abs() * decay
    beta = None if family == "lightning" else randn(tokens, 4).sigmoid()
    return DeltaInputs(unit(), unit(), randn(tokens, 4, 128).to(dtype), log_decay, beta, 0.125)


def moved(x: DeltaInputs) -> DeltaInputs:
    beta = None if x.beta is None else x.beta.to(DEVICE)
    q, k, v, log_decay = (y.to(DEVICE) for y in (x.q, x.k, x.v, x.log_decay))
    return DeltaInputs(q, k, v, log_decay, beta, x.scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("decay", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str, family: str, decay: float, dtype: torch.dtype) -> None:
    kernels = kernels_of(name)
    lens = [1, 63, 0, 64, 65, 300]
    x, initial = inputs_of(family, sum(lens), decay, dtype), torch.randn(6, 4, 64, 128)
    expected, expected_final, _ = recurrent(x, initial, Sequences.of(lens))
    out, final = kernels.chunked(moved(x), initial.to(DEVICE), Sequences.of(lens, DEVICE))
    assert out.dtype == dtype
    assert relative_error(out, expected) <= tolerance(dtype, name)
    assert relative_error(final, expected_final) <= tolerance(dtype, name)

    x, initial = inputs_of(family, 12, decay, dtype), torch.randn(3, 4, 64, 128)
    steps = Sequences.of([4] * 3)
    expected, expected_final, expected_states = recurrent(x, initial, steps, every_state=True)
    out, final, states = kernels.recurrent(
        moved(x), initial.to(DEVICE), Sequences.of([4] * 3, DEVICE), every_state=True
    )
    assert states is not None
    assert expected_states is not None
    # Only the output is rounded to 16 bit; the states are float32 throughout.
    assert relative_error(out, expected) <= (1e-2 if dtype == torch.bfloat16 else 1e-5)
    assert relative_error(final, expected_final) <= 1e-5
    assert relative_error(states, expected_states) <= 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", KERNELS)
def test_a_request_through_every_pass(name: str, family: str, dtype: torch.dtype) -> None:
    world = world_of(family, dtype)
    backend = backend_of(world, name)
    world.draw(0, 120)
    world.draw(1, 20)
    out = [world.extended(backend, {0: (0, 70), 1: (0, 3)})[0]]
    out.append(world.extended(backend, {1: (3, 9), 0: (70, 101)})[0])
    out.append(world.verified(backend, {0: 101, 1: 9})[0][:2])
    backend.update_mamba_state_after_mtp_verify(torch.tensor([1, -1], device=DEVICE))
    out += [world.decoded(backend, {1: place - 94, 0: place})[0] for place in range(103, 110)]
    out.append(world.extended(backend, {0: (110, 120)})[0])
    assert relative_error(torch.cat(out), world.expected(0)) <= tolerance(dtype, name)


@pytest.mark.parametrize("mode", [ForwardMode.DECODE, ForwardMode.TARGET_VERIFY])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", KERNELS)
def test_captured_graphs(name: str, family: str, mode: ForwardMode) -> None:
    """A real capture, replayed for other requests with a padding row that holds NaN."""
    world = world_of(family)
    backend = backend_of(world, name)
    backend.init_cuda_graph_state(3, 9)
    tokens = 1 if mode is ForwardMode.DECODE else 3
    starts = {0: 40, 2: 7}
    for request, start in starts.items():
        world.draw(request, 60)
        world.extended(backend, {request: (0, start)})

    def batch_of(requests: list[int], lens: list[int], slots: list[int]) -> ForwardBatch:
        if mode is ForwardMode.DECODE:
            return ForwardBatch.decode(requests, [n + 1 for n in lens], slots, DEVICE)
        spread = [s for s in slots for _ in range(3)]
        return ForwardBatch.target_verify(requests, lens, 3, spread, DEVICE)

    static = world.inputs({0: (0, 3 * tokens)})
    names = sorted({"mixed_qkv", "a", "b"} & set(static))
    captured = batch_of([0, 0, 0], [1, 1, 1], [0, 0, 0])
    recorder = GraphRecorder(backend)
    recorder.capture("graph", captured)
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        backend.forward(forward_batch=captured, **static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = backend.forward(forward_batch=captured, **static)

    for order in ([0, 2], [2, 0], [0, 2]):
        lens = [starts[r] for r in order]
        recorder.replay("graph", batch_of([*order, 0], [*lens, 1], [5, 6, 0]))
        inputs = world.inputs({r: (starts[r], starts[r] + tokens) for r in order})
        for name_ in names:
            static[name_].fill_(math.nan)
            static[name_][: 2 * tokens].copy_(inputs[name_])
        graph.replay()
        if mode is ForwardMode.TARGET_VERIFY:
            backend.update_mamba_state_after_mtp_verify(torch.tensor([0, 0], device=DEVICE))
        for row, request in enumerate(order):
            start = starts[request]
            actual = out[row * tokens : (row + 1) * tokens]
            expected = world.expected(request)[start : start + tokens]
            assert relative_error(actual, expected) <= 1e-2
            starts[request] += 1


def test_the_choice_on_a_gpu() -> None:
    backend = FAMILIES["kda"](world_of("kda").runner)
    assert backend.kernels.name == ("torch" if installed_version() is None else "fla")
