"""Planning and running, per phase and backend: ``python -m tests.bench.bench_runtime --help``.

Medians over random data after a warm-up, on scattered pages. A layer is timed by events on a GPU, a
plan (``init_forward_metadata``) by the host's clock until the device is done. One pool: part of a
small one stays in the L2.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from mla_runtime import (
    AttentionForm,
    EngineSettings,
    ForwardMode,
    MlaModelConfig,
    create_backend,
)
from mla_runtime.create import kernels_of
from mla_runtime.mla_core import plan_form
from tests.runtime.world import World

SHAPES = {
    "decode": (ForwardMode.DECODE, 1, AttentionForm.MLA),
    "target verify": (ForwardMode.TARGET_VERIFY, 4, AttentionForm.MLA),
    "extend, absorbed": (ForwardMode.EXTEND, 64, AttentionForm.MLA),
    "extend, chunks": (ForwardMode.EXTEND, 64, AttentionForm.MHA_CHUNKED_KV),
    "extend, one shot": (ForwardMode.EXTEND, 64, AttentionForm.MHA_ONE_SHOT),
}


def timed(step: Callable[[], object], device: str, repeats: int, *, host: bool = False) -> float:
    """Median milliseconds of a step; ``host`` takes the host's clock on a GPU too."""
    step()
    times = []
    for _ in range(repeats):
        if device == "cuda" and not host:
            start, end = (
                torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
                for _ in range(2)
            )
            start.record()
            step()
            end.record()
            end.synchronize()
            times.append(float(start.elapsed_time(end)))
        else:
            begin = time.perf_counter()
            step()
            if device == "cuda":
                torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def measure(
    given: argparse.Namespace, heads: int, phase: str, dtype: torch.dtype
) -> tuple[str, float, float]:
    """The kernels, the milliseconds of a plan and of a layer."""
    mode, queries, form = SHAPES[phase]
    config = MlaModelConfig(
        num_attention_heads=heads, context_len=given.context + queries + given.page_size
    )
    world = World(
        config,
        dtype,
        page_size=given.page_size,
        pages=given.batch * (-(-(given.context + queries) // given.page_size) + 1),
        requests=given.batch,
        device=given.device,
        # Block-table backends attend a prefix in the absorbed form only where this is set.
        settings=EngineSettings(disable_chunked_prefix_cache=form is AttentionForm.MLA),
    )
    one_pass = world.pass_of(mode, [given.context] * given.batch, [queries] * given.batch)
    backend = create_backend(given.backend, world.runner)

    def plan() -> None:
        backend.init_forward_metadata(one_pass.batch)

    plan_ms = timed(plan, given.device, given.repeats, host=True)
    plan_form(backend, one_pass.batch, world.core.req_to_token, 1 << 17, form)
    q_nope, q_pe, latent, k_pe = (
        x.to(given.device) for x in (one_pass.q_nope, one_pass.q_pe, one_pass.latent, one_pass.k_pe)
    )

    def layer() -> None:
        world.core.attend(
            form, backend, one_pass.batch, world.device_heads, q_nope, q_pe, latent, k_pe
        )

    return kernels_of(backend), plan_ms, timed(layer, given.device, given.repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--heads", type=int, nargs="+", default=[16])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--page-size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    torch.set_num_threads(1)  # small host tensors: a second thread only waits
    dtype = torch.bfloat16 if given.device == "cuda" else torch.float32
    print(f"{given.device}, {dtype}, batch {given.batch}, context {given.context}")
    columns = f"{'plan ms':>9}{'layer ms':>10}{'tokens/s':>12}"
    print(f"{'heads':>5}  {'phase':<18}{'kernels':<14}{columns}")
    for heads in given.heads:
        for phase, (_, queries, _) in SHAPES.items():
            kernels, plan, layer = measure(given, heads, phase, dtype)
            rate = 1e3 * given.batch * queries / layer
            figures = f"{plan:>9.3f}{layer:>10.3f}{rate:>12,.0f}"
            print(f"{heads:>5}  {phase:<18}{kernels:<14}{figures}", flush=True)


if __name__ == "__main__":
    main()
