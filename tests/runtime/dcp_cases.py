"""What every rank of a decode-context-parallel group runs: called by ``Ranks.run``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from mla_runtime import AttentionForm, EngineSettings, ForwardMode, GraphRecorder, create_backend
from mla_runtime.dense_reference import relative_error
from mla_runtime.engine.engine import TinyEngine
from mla_runtime.engine.generate import generate
from mla_runtime.engine.phases import phase_reports
from tests.runtime.world import SMALL, Pass, World

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from mla_runtime import MlaModelConfig
    from mla_runtime.engine.options import EngineOptions

__all__ = ["Case", "Errors", "compare", "engine_life", "generated", "replayed"]


@dataclass(frozen=True)
class Case:
    """One pass over requests of ``prefix`` cached and ``new`` tokens."""

    mode: ForwardMode
    prefix: tuple[int, ...]
    new: tuple[int, ...]
    form: AttentionForm | None = None
    capacity: int = 1 << 17
    dtype: torch.dtype = torch.float32
    kv_dtype: torch.dtype | None = None
    page_size: int = 4
    comm_backend: str = "a2a"
    config: MlaModelConfig = field(default=SMALL)
    backend: str = "torch"


@dataclass(frozen=True)
class Errors:
    """Relative errors of one rank's heads."""

    float64: float
    """Against dense float64; of an fp8 cache, against what the cache holds."""
    one_rank: float
    """Against the same backend over a whole cache."""


def _world(case: Case, device: str, group: ProcessGroup | None) -> World:
    return World(
        case.config,
        case.dtype,
        case.kv_dtype,
        page_size=case.page_size,
        pages=sum(p + n for p, n in zip(case.prefix, case.new, strict=True)) // case.page_size
        + len(case.prefix),
        requests=max(8, len(case.prefix)),
        device=device,
        settings=EngineSettings(dcp_comm_backend=case.comm_backend),
        group=group,
    )


def replayed(group: ProcessGroup, device: str, case: Case, lengths: list[list[int]]) -> list[float]:
    """Errors against float64 of replays over ``lengths``, after a capture with the shortest.

    On a GPU under NCCL a CUDA graph is captured and replayed, elsewhere its step is called; either
    way ``GraphRecorder`` refuses a plan that moves what was captured.
    """
    queries = case.new[0]
    world = World(
        case.config,
        case.dtype,
        page_size=case.page_size,
        pages=max(sum(prefix) for prefix in lengths) // case.page_size + 3 * len(case.new),
        device=device,
        settings=EngineSettings(speculative_num_draft_tokens=queries),
        group=group,
    )
    backend = create_backend(case.backend, world.runner)
    backend.init_cuda_graph_state(len(case.new), sum(case.new))
    recorder = GraphRecorder(backend)
    first = world.pass_of(case.mode, list(case.prefix), list(case.new))
    inputs = [x.to(device) for x in _own(first)]
    recorder.capture("graph", first.batch)

    def step() -> torch.Tensor:
        return world.core.attend(
            AttentionForm.MLA, backend, first.batch, world.device_heads, *inputs
        )

    replay = step
    if dist.get_backend(group) == "nccl":
        replay = _graph_of(step)
    errors = []
    for prefix in lengths:
        world.forget()
        later = world.pass_of(case.mode, prefix, list(case.new))
        for buffer, value in zip(inputs, _own(later), strict=True):
            buffer.copy_(value)
        first.batch.out_cache_loc.copy_(later.batch.out_cache_loc)
        recorder.replay("graph", later.batch)
        errors.append(later.error(replay()))
    return errors


def _own(given: Pass) -> list[torch.Tensor]:
    own = given.world.own
    return [given.q_nope[:, own], given.q_pe[:, own], given.latent, given.k_pe]


def _graph_of(step: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        out = step()

    def replay() -> torch.Tensor:
        out.fill_(math.nan)
        graph.replay()
        return out

    return replay


def engine_life(
    group: ProcessGroup, device: str, options: EngineOptions
) -> dict[str, tuple[str, float]]:
    """The form and the error against float64 of every phase of the tiny engine."""
    reports = phase_reports(TinyEngine(replace(options, device=device), group))
    return {r.phase: (r.form, r.error) for r in reports}


def generated(
    group: ProcessGroup, device: str, options: EngineOptions, chunk: int | None
) -> tuple[list[list[int]], list[list[int]], int]:
    """Tokens over the group's cache, those of one rank, and how many drafts were accepted."""
    found = []
    for g in (group, None):
        engine = TinyEngine(replace(options, device=device), g)
        prompts = engine.random_tokens([6, 9, 30])
        found.append(generate(engine, prompts, 12, chunk=chunk))
    return found[0].tokens, found[1].tokens, found[0].accepted


def compare(group: ProcessGroup, device: str, case: Case) -> Errors:
    """This rank's heads against float64 and against one rank that holds all tokens."""
    sharded, whole = (
        _world(case, device, g).pass_of(case.mode, list(case.prefix), list(case.new))
        for g in (group, None)
    )
    outs = [
        p.run(create_backend(case.backend, p.world.runner), case.form, capacity=case.capacity)
        for p in (sharded, whole)
    ]
    own = sharded.world.own
    fp8 = case.kv_dtype is not None
    # New tokens in the multi-head form alone are attended as they come, not as they are stored.
    stored = case.mode is not ForwardMode.EXTEND or case.form in (
        AttentionForm.MLA,
        AttentionForm.MHA_ONE_SHOT,
    )
    expected = sharded.expected(prefix_from_pool=fp8, new_from_pool=fp8 and stored)[:, own]
    return Errors(relative_error(outs[0], expected), relative_error(outs[0], outs[1][:, own]))
