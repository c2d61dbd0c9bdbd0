"""A 61-layer decode step against the bare kernel: ``python -m tests.bench.bench_decode --quick``.

One NVIDIA GPU with flashinfer-python. A step of ours is 61 layers through the backend, with the
write of the new rows into the cache; the bare kernel is FlashInfer's paged MLA run 61 times over
the same pools, planned once, with pages of the pool's size. Both are captured in a CUDA graph, and
launched eagerly in the same loop. An exposed plan is what a loop of planning and stepping takes
beyond the loop of stepping. Caches hold random numbers; variants take turns,
and the median over the rounds counts. Layers rotate over fewer pools where 61 do not fit (``*``).

``--prefill`` measures the extend phases as well, whose ragged kernel takes a minute to compile.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

import torch

import mla_runtime
from mla_runtime import ForwardBatch
from mla_runtime.kernels.capability import capability_of
from mla_runtime.kernels.flashinfer_library import load_library
from mla_runtime.kernels.flashinfer_paged import paged_backend
from mla_runtime.kernels.flashinfer_planned import FlashInferPlannedKernels
from mla_runtime.workspace import WorkspaceKind, workspace
from tests.bench.decode_cells import (
    BATCHES,
    CONTEXTS,
    HEADER,
    HEADS,
    LATENT,
    LAYERS,
    PAGES,
    QUICK,
    ROPE,
    ROW,
    Cell,
    Times,
    cells_of,
    line_of,
    markdown,
    pools_of,
)
from tests.bench.timing import ROUNDS, Step, nothing, taken_in_turns

DEVICE = torch.device("cuda")
KV_DTYPES = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
RESERVED = 12 << 30
"""Bytes of the card that are left to everything but the caches."""
KV_SCALE = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heads", type=int, nargs="+", default=HEADS)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--contexts", type=int, nargs="+", default=CONTEXTS)
    parser.add_argument("--pages", type=int, nargs="+", default=PAGES)
    parser.add_argument("--quick", action="store_true", help="the shapes that have a target alone")
    parser.add_argument("--kv-dtype", choices=KV_DTYPES, default="bf16")
    parser.add_argument("--guard", action="store_true", help="the guard on against off, too")
    parser.add_argument("--prefill", action="store_true", help="the extend phases, too")
    parser.add_argument("--memory", type=int, help="GiB for the caches; by default what is free")
    given = parser.parse_args()
    torch.set_num_threads(1)  # small host tensors: a second thread only waits
    dtype = KV_DTYPES[given.kv_dtype]
    describe(given.kv_dtype)
    copy, matrix = ceilings()
    print(f"copy {copy:,.0f} GB/s (read + written), bf16 matrix product {matrix:,.0f} TFLOP/s\n")
    free = torch.cuda.mem_get_info()[0] - RESERVED
    memory = free if given.memory is None else min(free, given.memory << 30)
    wide = None
    if dtype != torch.bfloat16:  # a third for it, two for the same pools in bf16
        memory //= 3
        wide = random_storage(memory, torch.bfloat16)
    storage = random_storage(memory // dtype.itemsize, dtype)
    l2 = torch.cuda.get_device_properties(DEVICE).L2_cache_size
    cells = (
        [Cell(*shape) for shape in QUICK]
        if given.quick
        else list(cells_of(given.heads, given.batches, given.contexts, given.pages))
    )
    lines, guard_lines, fp8_lines, left_out = [], [], [], []
    unguarded = without_guard() if given.guard else None
    for cell in cells:
        pools = pools_of(cell, dtype.itemsize, memory, l2)
        if not pools:
            left_out.append(cell)
            continue
        decode = Decode(cell, pools, storage, dtype)
        times = decode.times()
        lines.append(line_of(cell, pools, times, dtype.itemsize, copy, matrix))
        print("| " + " | ".join(lines[-1]) + " |", file=sys.stderr, flush=True)
        if unguarded is not None:
            guard_lines.append(guard_line(decode, replace(decode, runtime=unguarded)))
        if wide is not None:
            fp8_lines.append(fp8_line(decode, Decode(cell, pools, wide, torch.bfloat16)))
        del decode
        torch.cuda.empty_cache()
    print(markdown(HEADER, lines), flush=True)
    for cell in left_out:
        print(f"left out, since not even two pools fit: {cell}")
    if guard_lines:
        header = ("shape", "replay, guard on / off", "eager, guard on / off")
        print("\n" + markdown(header, guard_lines), flush=True)
    if fp8_lines:
        fp8_header = (
            "shape",
            "e4m3 ms",
            "bare e4m3 ms",
            "bare bf16 ms",
            "bare e4m3 / ours",
            "bf16 / ours",
        )
        print("\n" + markdown(fp8_header, fp8_lines), flush=True)
    if given.prefill:
        del storage, wide
        torch.cuda.empty_cache()
        from tests.bench.bench_prefill import prefill_table

        print("\n" + prefill_table(matrix), flush=True)


def describe(kv_dtype: str) -> None:
    """Card, driver and versions."""
    card = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()[0]
    release = load_library().version
    python = ".".join(map(str, sys.version_info[:3]))
    print(
        f"{card}, torch {torch.__version__}, flashinfer-python {release}, Python {python}, "
        f"{kv_dtype} KV, {time.strftime('%Y-%m-%d')}"
    )


def ceilings() -> tuple[float, float]:
    """GB/s of a large device copy, bytes read and written; TFLOP/s of a large bf16 product."""
    source = torch.randn(1 << 30, device=DEVICE, dtype=torch.bfloat16)
    target = torch.empty_like(source)
    a, b = (torch.randn(8192, 8192, device=DEVICE).bfloat16() for _ in range(2))
    turns = taken_in_turns([lambda: target.copy_(source), lambda: torch.mm(a, b)])
    return 2 * source.nbytes / turns[0] / 1e6, 2 * 8192**3 / turns[1] / 1e9


def random_storage(elements: int, dtype: torch.dtype) -> torch.Tensor:
    """Standard normal values; e4m3 ones, divided by ``KV_SCALE``, as bytes."""
    if dtype.itemsize > 1:
        return torch.empty(elements, dtype=dtype, device=DEVICE).normal_()
    storage = torch.empty(elements, dtype=torch.uint8, device=DEVICE)
    for part in torch.split(storage, 1 << 28):
        values = torch.randn(part.shape[0], device=DEVICE) / KV_SCALE
        part.copy_(values.clamp_(-448, 448).to(dtype).view(torch.uint8))
    return storage


def captured(step: Step) -> torch.cuda.CUDAGraph:
    """A CUDA graph of a step, after a run for what has to be there before."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


@dataclass
class Decode:
    """One cell: its pools, its batches, our backend and the bare kernel."""

    cell: Cell
    pools: int
    storage: torch.Tensor
    dtype: torch.dtype
    runtime: ModuleType = mla_runtime

    def __post_init__(self) -> None:
        cell = self.cell
        config = self.runtime.MlaModelConfig(
            num_attention_heads=cell.heads, context_len=cell.request_pages * cell.page
        )
        fp8 = self.dtype.itemsize == 1
        pool = self.runtime.MlaKvPool(
            cell.slots,
            cell.page,
            LATENT,
            ROPE,
            self.pools,
            self.dtype,
            device="meta",
            kv_scales=[KV_SCALE] * self.pools if fp8 else None,
        )
        size = (cell.slots + cell.page) * ROW
        pool.kv_buffer = [
            self.storage[i * size : (i + 1) * size].view(-1, 1, ROW) for i in range(self.pools)
        ]
        table = self.runtime.ReqToTokenPool(cell.batch, config.context_len, DEVICE)
        self.order = torch.randperm(cell.batch * cell.request_pages, device=DEVICE) + 1
        slots = self.order[:, None] * cell.page + torch.arange(cell.page, device=DEVICE)
        table.req_to_token.copy_(slots.view(cell.batch, -1))
        self.last_slots = table.req_to_token[:, cell.context - 1].tolist()
        self.pool = pool
        self.runner = self.runtime.ModelRunner(
            config,
            table,
            pool,
            torch.bfloat16,
            kv_cache_dtype=self.dtype,
            page_size=cell.page,
            device=DEVICE,
        )
        self.batch: ForwardBatch = self.runtime.ForwardBatch.decode(
            range(cell.batch), [cell.context] * cell.batch, self.last_slots, DEVICE
        )
        self.layers = [config.absorbed_layer(i % self.pools) for i in range(LAYERS)]
        self.scale = config.scaling
        self.q_nope, self.q_pe, self.latent, self.k_pe = (
            torch.randn(cell.batch, heads, width, device=DEVICE).bfloat16()
            for heads, width in ((cell.heads, LATENT), (cell.heads, ROPE), (1, LATENT), (1, ROPE))
        )

    def step_of(self, backend: Any, write: bool = True) -> Step:
        """61 layers of ours."""

        def step() -> None:
            for layer in self.layers:
                backend.forward(
                    self.q_nope,
                    self.latent,
                    self.latent,
                    layer,
                    self.batch,
                    save_kv_cache=write,
                    q_rope=self.q_pe,
                    k_rope=self.k_pe,
                )

        return step

    def bare(self) -> Step:
        """61 runs of the library's own wrapper, planned in pages of the pool."""
        cell = self.cell
        wrapper = load_library().BatchMLAPagedAttentionWrapper(
            workspace(DEVICE, WorkspaceKind.FLASHINFER),
            backend=paged_backend(capability_of(DEVICE), LATENT),
        )
        ints: dict[str, Any] = {"dtype": torch.int32, "device": DEVICE}
        wrapper.plan(
            torch.arange(cell.batch + 1, **ints),
            torch.arange(cell.batch + 1, **ints) * cell.request_pages,
            self.order.to(torch.int32),
            torch.full((cell.batch,), cell.context, **ints),
            cell.heads,
            LATENT,
            ROPE,
            cell.page,
            False,
            self.scale,
            torch.bfloat16,
            self.dtype,
        )
        scales = {"ckv_scale": KV_SCALE, "kpe_scale": KV_SCALE} if self.dtype.itemsize == 1 else {}
        out = torch.empty_like(self.q_nope)
        caches = []
        for layer in self.layers:
            rows = self.pool.get_key_buffer(layer.layer_id).view(-1, cell.page, ROW)
            caches.append((rows[..., :LATENT], rows[..., LATENT:]))

        def step() -> None:
            for ckv, kpe in caches:
                wrapper.run(self.q_nope, self.q_pe, ckv, kpe, out=out, **scales)

        return step

    def replayable(self, backend: Any, write: bool = True) -> Step:
        """The step in a CUDA graph of its own."""
        backend.init_cuda_graph_state(self.cell.batch, self.cell.batch)
        backend.init_forward_metadata_out_graph(self.batch, in_capture=True)
        return captured(self.step_of(backend, write)).replay

    def times(self) -> Times:
        backend = self.runtime.create_backend("auto", self.runner)
        plan_replay = partial(backend.init_forward_metadata_out_graph, self.batch)
        plan_eager = partial(backend.init_forward_metadata, self.batch)
        step, bare = self.step_of(backend), self.bare()
        without_write = self.replayable(self.runtime.create_backend("auto", self.runner), False)
        replay = self.replayable(backend)

        def planned_replay() -> None:
            plan_replay()
            replay()

        def planned_eager() -> None:
            plan_eager()
            step()

        return Times(
            *taken_in_turns(
                [
                    replay,
                    captured(bare).replay,
                    without_write,
                    step,
                    bare,
                    planned_replay,
                    planned_eager,
                ],
                [plan_replay, nothing, nothing, plan_eager, nothing, plan_replay, plan_eager],
            )
        )


def guard_line(guarded: Decode, unguarded: Decode) -> tuple[str, str, str]:
    """The step with the guard on against that of classes it never saw."""
    steps: list[Step] = []
    plans: list[Step] = []
    for decode in (guarded, unguarded):
        backend = decode.runtime.create_backend("auto", decode.runner)
        steps += [decode.replayable(backend), decode.step_of(backend)]
        plans += [
            partial(backend.init_forward_metadata_out_graph, decode.batch),
            partial(backend.init_forward_metadata, decode.batch),
        ]
    replay, eager, replay_off, eager_off = taken_in_turns(steps, plans, 2 * ROUNDS)
    return str(guarded.cell), f"{replay / replay_off:.3f}", f"{eager / eager_off:.3f}"


def fp8_line(fp8: Decode, bf16: Decode) -> tuple[str, ...]:
    """A replayed step over an e4m3 cache against FlashInfer's kernels over it and over bf16."""
    kernels = FlashInferPlannedKernels(torch.device("cuda"), own_fp8=True)
    backend = fp8.runtime.FlashInferMLAAttnBackend(fp8.runner, kernels=kernels)
    own, theirs, wide = taken_in_turns(
        [fp8.replayable(backend), captured(fp8.bare()).replay, captured(bf16.bare()).replay]
    )
    times = (f"{ms:.3f}" for ms in (own, theirs, wide))
    return str(fp8.cell), *times, f"{theirs / own:.2f}", f"{wide / own:.2f}"


def without_guard() -> ModuleType:
    """A second ``mla_runtime``, imported under ``MLA_GUARD=off``; the first stays as it is."""
    ours = ("mla_runtime", "mla_guard")
    kept = {name: m for name, m in sys.modules.items() if name.split(".")[0] in ours}
    for name in kept:
        del sys.modules[name]
    before = os.environ.get("MLA_GUARD")
    os.environ["MLA_GUARD"] = "off"
    try:
        return importlib.import_module("mla_runtime")
    finally:
        if before is None:
            del os.environ["MLA_GUARD"]
        else:
            os.environ["MLA_GUARD"] = before
        sys.modules.update(kept)


if __name__ == "__main__":
    main()
