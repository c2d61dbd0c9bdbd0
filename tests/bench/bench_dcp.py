"""Decode context parallel on two cards or more: ``python -m tests.bench.bench_dcp [--world 2]``.

A step is 61 layers of absorbed decode with the cache write, 16 heads over all ranks, bf16, pages
of 64 in random order, every layer with a cache of its own, captured in a CUDA graph and replayed.
It is timed on one card that holds all tokens (T1) and on ``world`` cards that share them; so is
what the ranks exchange in it, alone: the bare collectives of the same sizes, and with the packing
and merging around them. The bound is ``T1 / (T1 / world + bare exchange)``. Medians; the slowest
rank counts.

``--capacity`` fills the cards instead: as many tokens as one card holds, then ``world`` times as
many over all of them, decoded and compared with float64. One process per card is started here.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from mla_runtime import (
    EngineSettings,
    ForwardBatch,
    MlaKvPool,
    MlaModelConfig,
    ModelRunner,
    ReqToTokenPool,
    ShardedMlaKvPool,
    create_backend,
)
from mla_runtime.dense_reference import relative_error
from mla_runtime.head_exchange import COMM_BACKENDS, HeadExchange
from mla_runtime.kv_shard import KvShard

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

LAYERS, HEADS, PAGE = 61, 16, 64
LATENT, ROPE = 512, 64
SHAPES = [(64, 16 * 1024), (1, 128 * 1024), (16, 32 * 1024), (256, 4 * 1024)]
"""Batch and context; the first two are those with a target."""


@dataclass
class Decode:
    """A decode of one token per request after ``context - 1`` cached ones, over one cache."""

    batch: int
    context: int
    layers: int
    group: ProcessGroup | None
    comm_backend: str = "a2a"

    def __post_init__(self) -> None:
        device = torch.device("cuda", torch.cuda.current_device())
        self.shard = KvShard.of(self.group)
        slots = PAGE * self.shard.world
        pages = -(-self.context // slots)
        make = MlaKvPool if self.group is None else partial(ShardedMlaKvPool, self.group)
        self.pool = make(
            self.batch * pages * slots, slots, LATENT, ROPE, self.layers, torch.bfloat16, device
        )
        for rows in self.pool.kv_buffer:
            rows.normal_()
        self.config = MlaModelConfig(num_attention_heads=HEADS, context_len=pages * slots)
        table = ReqToTokenPool(self.batch, self.config.context_len, device)
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(self.batch * pages, generator=generator).view(self.batch, pages) + 1
        every = order[..., None] * slots + torch.arange(slots)
        table.req_to_token.copy_(every.view(self.batch, -1))
        self.table = table.req_to_token
        self.runner = ModelRunner(
            self.config,
            table,
            self.pool,
            torch.bfloat16,
            page_size=PAGE,
            device=device,
            tp_size=self.shard.world,
            dcp_group=self.group,
            server_args=EngineSettings(dcp_comm_backend=self.comm_backend),
        )
        self.forward_batch = ForwardBatch.decode(
            list(range(self.batch)),
            [self.context] * self.batch,
            self.table[:, self.context - 1].tolist(),
            device,
        )
        heads = HEADS // self.shard.world
        own = slice(self.shard.rank * heads, (self.shard.rank + 1) * heads)
        query = torch.randn(self.batch, HEADS, LATENT + ROPE, generator=generator)
        self.query = query[:, own].bfloat16().to(device)
        key = torch.randn(self.batch, 1, LATENT + ROPE, generator=generator)
        self.key = key.bfloat16().to(device)
        self.backend = create_backend("flashinfer", self.runner)
        self.attention = [self.config.absorbed_layer(i, heads) for i in range(self.layers)]

    def step(self) -> torch.Tensor:
        """The last layer's output, ``[B, H, 512]``."""
        for layer in self.attention:
            out = self.backend.forward(
                self.query.flatten(1),
                self.key,
                self.key,
                layer,
                self.forward_batch,
            )
        assert isinstance(out, torch.Tensor)
        return out.view(self.batch, -1, LATENT)

    def captured(self) -> Captured:
        self.backend.init_cuda_graph_state(self.batch, self.batch)
        self.backend.init_forward_metadata_out_graph(self.forward_batch, in_capture=True)

        def step() -> None:
            self.backend.init_forward_metadata_in_graph(self.forward_batch)
            self.step()

        return Captured(step)

    def expected(self, request: int, layer: int) -> torch.Tensor:
        """Float64 attention of one request, from the rows of all ranks: ``[H, 512]``."""
        loc = self.table[request, : self.context].long()
        rows = torch.cat(self.pool.get_mla_kv_buffer(self.attention[layer], loc), -1)[:, 0]
        wide = rows.double()
        weights = torch.softmax(self.query[request].double() @ wide.T * self.config.scaling, dim=-1)
        return weights @ wide[:, :LATENT]


class Captured:
    """A CUDA graph of a step, which keeps alive what the step reads."""

    def __init__(self, step: Callable[[], object]) -> None:
        """Run it three times, for what has to be there before, and capture it."""
        self.step = step
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            step()

    def milliseconds(self, *, together: bool, repeats: int = 7) -> float:
        """Median of ``repeats`` means, each over as many replays as take 50 ms.

        ``together``: all ranks replay at once, equally often, and the slowest counts.
        """

        def mean(count: int) -> float:
            if together:
                dist.barrier()
            start, end = (
                torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
                for _ in range(2)
            )
            start.record()
            for _ in range(count):
                self.graph.replay()
            end.record()
            end.synchronize()
            return float(start.elapsed_time(end)) / count

        mean(3)
        once = mean(3)
        count = max(3, int(50 / (largest(once) if together else once)))
        median = statistics.median(mean(count) for _ in range(repeats))
        return largest(median) if together else median


def largest(value: float) -> float:
    """Of what every rank brings."""
    held = torch.tensor([value], device="cuda", dtype=torch.float64)
    dist.all_reduce(held, dist.ReduceOp.MAX)
    return float(held)


def exchange_times(group: ProcessGroup, batch: int, way: str) -> tuple[float, float]:
    """Milliseconds of 61 layers' exchange: the bare collectives, and with all around them."""
    world, heads = dist.get_world_size(group), HEADS // dist.get_world_size(group)
    query = torch.randn(batch, heads, LATENT + ROPE, device="cuda").bfloat16()
    exchange = HeadExchange(group, way)
    bare = _bare(way, group, world, batch, heads)

    def bare_step() -> None:
        for _ in range(LAYERS):
            bare()

    def whole_step() -> None:
        for _ in range(LAYERS):
            q_nope, _ = exchange.gather_heads(query, LATENT).wait()
            exchange.combine(exchange.partial(q_nope), None)

    return (
        Captured(bare_step).milliseconds(together=True),
        Captured(whole_step).milliseconds(together=True),
    )


def _bare(way: str, group: ProcessGroup, world: int, batch: int, heads: int) -> Callable[[], None]:
    """The collectives of one layer and nothing else."""

    def buffer(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(*shape, dtype=dtype, device="cuda")

    query = buffer(batch, heads, LATENT + ROPE, dtype=torch.bfloat16)
    queries = buffer(world * batch, heads, LATENT + ROPE, dtype=torch.bfloat16)
    state = batch * heads * (LATENT // 2 + 1)
    sent, received, everything = (buffer(n, state) for n in (world, world, world**2))
    lse, lses = buffer(batch, HEADS), buffer(world * batch, HEADS)
    partial, reduced = buffer(world * batch, heads, LATENT), buffer(batch, heads, LATENT)

    def collectives() -> None:
        dist.all_gather_into_tensor(queries, query, group=group)
        if way == "a2a":
            dist.all_to_all_single(received, sent, group=group)
        elif way == "ag":
            dist.all_gather_into_tensor(everything, sent, group=group)
        else:
            dist.all_gather_into_tensor(lses, lse, group=group)
            dist.reduce_scatter_tensor(reduced, partial, group=group)

    return collectives


def speed(group: ProcessGroup) -> None:
    """A line per shape and way to exchange."""
    world = dist.get_world_size(group)
    say(
        f"| batch | context | T1 ms | exchange | T{world} ms | T1 / T{world} | bound | reached "
        f"| bare exchange ms | whole exchange ms | its share of T{world} |"
    )
    say("| --- " * 11 + "|")
    for batch, context in SHAPES:
        one = largest(Decode(batch, context, LAYERS, None).captured().milliseconds(together=False))
        torch.cuda.empty_cache()
        for way in COMM_BACKENDS:
            shared = Decode(batch, context, LAYERS, group, way)
            many = shared.captured().milliseconds(together=True)
            del shared
            torch.cuda.empty_cache()
            bare, whole = exchange_times(group, batch, way)
            bound = one / (one / world + bare)
            say(
                f"| {batch} | {context:,} | {one:.3f} | {way} | {many:.3f} | {one / many:.2f} "
                f"| {bound:.2f} | {100 * one / many / bound:.0f} % | {bare:.3f} | {whole:.3f} "
                f"| {100 * whole / many:.0f} % |"
            )


def capacity(group: ProcessGroup) -> None:
    """As many tokens as fit one card, then ``world`` times as many over all."""
    world, context = dist.get_world_size(group), 32 * 1024
    per_request = context * (LATENT + ROPE) * 2 * LAYERS
    free, _ = torch.cuda.mem_get_info()
    # What is left out is for workspaces, the graph and the float64 check.
    batch = -int(largest(-float((free - (10 << 30)) // per_request)))
    decode = Decode(batch, context, LAYERS, None)
    decode.backend.init_forward_metadata(decode.forward_batch)
    error = largest(_error(decode))
    held = torch.cuda.memory_allocated() / 2**30
    say(f"one card: {batch * context:,} tokens in {held:.1f} GiB, relative error {error:.1e}")
    del decode
    torch.cuda.empty_cache()
    try:
        Decode(world * batch, context, LAYERS, None)
        say("one card also holds the tokens of all cards: it was not full")
    except torch.cuda.OutOfMemoryError:
        say(f"one card: {world * batch * context:,} tokens do not fit")
    torch.cuda.empty_cache()
    decode = Decode(world * batch, context, LAYERS, group)
    decode.backend.init_forward_metadata(decode.forward_batch)
    error = largest(_error(decode))
    step = decode.captured().milliseconds(together=True)
    held = torch.cuda.memory_allocated() / 2**30
    say(
        f"{world} cards: {world * batch * context:,} tokens in {held:.1f} GiB each, relative error "
        f"{error:.1e}, {step:.3f} ms for a captured step of {world * batch} requests"
    )


def _error(decode: Decode) -> float:
    """The largest relative error of the first and last request, in the last layer."""
    out = decode.step()
    return max(
        relative_error(out[request], decode.expected(request, LAYERS - 1))
        for request in (0, decode.batch - 1)
    )


def say(line: str) -> None:
    if dist.get_rank() == 0:
        print(line, flush=True)


def _rank(rank: int, given: argparse.Namespace, store: str) -> None:
    torch.set_num_threads(1)
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl",
        init_method=store,
        rank=rank,
        world_size=given.world,
        timeout=timedelta(minutes=4),
        device_id=device,
    )
    torch.manual_seed(rank)
    group = dist.group.WORLD
    assert group is not None
    nccl: Any = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
    say(
        f"{given.world} x {torch.cuda.get_device_name()}, torch {torch.__version__}, NCCL "
        f"{'.'.join(map(str, nccl))}; {HEADS} heads, {LAYERS} layers, bf16, page {PAGE}"
    )
    with torch.inference_mode():
        if given.capacity:
            capacity(group)
        else:
            speed(group)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", type=int, default=2, help="cards, one process each")
    parser.add_argument("--capacity", action="store_true", help="fill the cards instead")
    given = parser.parse_args()
    if torch.cuda.device_count() < given.world:
        raise SystemExit(
            f"--world {given.world} needs as many GPUs, found {torch.cuda.device_count()}"
        )
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "store").as_uri()
        spawn(_rank, (given, store), given.world)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
