"""What every rank of a decode-context-parallel group runs: called by ``Ranks.run``."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from mla_runtime import (
    AttentionForm,
    EngineSettings,
    FlashInferMLAAttnBackend,
    ForwardMode,
    GraphRecorder,
    HookRefusedError,
    TorchMLABackend,
    VerifyInput,
    create_backend,
)
from mla_runtime.create import BACKENDS
from mla_runtime.dense_reference import relative_error
from mla_runtime.engine.engine import TinyEngine
from mla_runtime.engine.generate import generate
from mla_runtime.engine.phases import phase_reports
from tests.runtime.test_adapters import planned
from tests.runtime.world import SMALL, Pass, World

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from mla_runtime import MlaModelConfig
    from mla_runtime.engine.options import EngineOptions

__all__ = [
    "Case",
    "Errors",
    "compare",
    "engine_life",
    "fail_on_rank",
    "generated",
    "hang",
    "in_pairs",
    "refusals",
    "replayed",
]


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
    """A name of ``create_backend``, or a FlashInfer release whose stand-in runs on the CPU."""


@dataclass(frozen=True)
class Errors:
    """Relative errors of one rank's heads."""

    float64: float
    """Against dense float64; of an fp8 cache, against what the cache holds."""
    one_rank: float
    """Against the same backend over a whole cache."""


def _world(
    case: Case,
    device: str,
    group: ProcessGroup | None,
    tp: tuple[int, int] | None = None,
) -> World:
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
        tp=tp,
    )


def _backend(case: Case, world: World) -> FlashInferMLAAttnBackend:
    if case.backend[0].isdigit():
        return FlashInferMLAAttnBackend(world.runner, kernels=planned(case.backend)[0])
    return create_backend(case.backend, world.runner)


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
        settings=EngineSettings(
            speculative_num_draft_tokens=queries, dcp_comm_backend=case.comm_backend
        ),
        group=group,
    )
    backend = _backend(case, world)
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


def refusals(group: ProcessGroup, device: str) -> dict[str, str]:
    """What is said, by what was asked for."""
    said = {}

    def ask(what: str, call: Callable[[], object]) -> None:
        try:
            call()
        except (ValueError, HookRefusedError) as error:
            said[what] = str(error)

    world = _world(Case(ForwardMode.DECODE, (4,), (1,), page_size=32), device, group)
    runner = world.runner
    for name in BACKENDS:
        ask(name, lambda name=name: create_backend(name, runner))  # type: ignore[misc]
    ask("heads that are not split", lambda: TorchMLABackend(replace(runner, tp_size=1)))
    whole = _world(Case(ForwardMode.DECODE, (4,), (1,)), device, None).pool
    ask("a pool of one rank", lambda: TorchMLABackend(replace(runner, dcp_group=None)))
    ask("a group of others", lambda: TorchMLABackend(replace(runner, dcp_group=_others(group))))
    coordinator: Any = SimpleNamespace(device_group=group)
    ask("nothing wrong", lambda: TorchMLABackend(replace(runner, dcp_group=coordinator)))
    settings = EngineSettings(dcp_comm_backend="ring")
    ask("another exchange", lambda: TorchMLABackend(replace(runner, server_args=settings)))
    ask("a whole pool", lambda: TorchMLABackend(replace(runner, token_to_kv_pool=whole)))
    verify = world.pass_of(ForwardMode.TARGET_VERIFY, [5], [3])
    backend = TorchMLABackend(runner)
    backend.init_forward_metadata(verify.batch)
    q = world.device_heads.absorb(verify.q_nope[:, world.own])
    q = torch.cat([q, verify.q_pe[:, world.own]], dim=-1).flatten(1)
    ask(
        "verify without k",
        lambda: backend.forward(q, None, None, world.core.absorbed, verify.batch),
    )
    verify.batch.spec_info = VerifyInput(3, topk=2)
    ask("a draft tree", lambda: backend.init_forward_metadata(verify.batch))
    return said


def _others(group: ProcessGroup) -> ProcessGroup:
    """A group that this rank is not in."""
    alone: list[ProcessGroup] = [
        dist.new_group([rank]) for rank in range(dist.get_world_size(group))
    ]
    return alone[dist.get_rank(group) - 1]


def fail_on_rank(group: ProcessGroup, device: str, rank: int) -> int:
    """Divides by zero on that rank."""
    return 0 // (0 if dist.get_rank(group) == rank else 1)


def hang(group: ProcessGroup, device: str) -> None:
    """Rank 0 waits for rank 1, which does not come."""
    if dist.get_rank(group) == 0:
        dist.barrier(group)
    else:
        time.sleep(600)


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


def in_pairs(group: ProcessGroup, device: str, case: Case) -> Errors:
    """As ``compare``, where all ranks split the heads and neighbours share a cache."""
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    pairs = [dist.new_group([first, first + 1]) for first in range(0, world, 2)]
    return compare(pairs[rank // 2], device, case, (rank, world))


def compare(
    group: ProcessGroup, device: str, case: Case, tp: tuple[int, int] | None = None
) -> Errors:
    """This rank's heads against float64 and against one rank that holds all tokens."""
    prefix, new = list(case.prefix), list(case.new)
    sharded = _world(case, device, group, tp).pass_of(case.mode, prefix, new)
    whole = _world(case, device, None).pass_of(case.mode, prefix, new)
    outs = [
        p.run(_backend(case, p.world), case.form, capacity=case.capacity) for p in (sharded, whole)
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
