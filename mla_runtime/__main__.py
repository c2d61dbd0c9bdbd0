"""``python -m mla_runtime``: a tiny model through every phase on a backend."""

from __future__ import annotations

import argparse
import sys

import torch

from mla_runtime.create import BACKENDS
from mla_runtime.engine.engine import EngineOptions, TinyEngine, warm

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_CACHE_DTYPES = {**_DTYPES, "fp8": torch.float8_e4m3fn}


def main(arguments: list[str] | None = None) -> int:
    """Run, print the table, return 0; 2 for options that no backend serves."""
    parser = argparse.ArgumentParser(prog="python -m mla_runtime", description=__doc__)
    parser.add_argument("--backend", default="auto", choices=["auto", *BACKENDS])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=_DTYPES)
    parser.add_argument("--kv-dtype", choices=_CACHE_DTYPES)
    parser.add_argument("--page-size", type=int, default=64)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=96, help="tokens of a first prompt")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    cache = _CACHE_DTYPES.get(given.kv_dtype)
    if given.backend == "tokenspeed_mla" and cache is None:
        cache = torch.float8_e4m3fn
    options = EngineOptions(
        backend=given.backend,
        device=given.device,
        dtype=_DTYPES.get(given.dtype)
        or (torch.float32 if given.device == "cpu" else torch.bfloat16),
        kv_dtype=cache,
        page_size=given.page_size,
        heads=given.heads,
        layers=given.layers,
        requests=given.requests,
        prompt=given.prompt,
        seed=given.seed,
    )
    try:
        warm(options)
        engine = TinyEngine(options)
    except (ValueError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    reports = engine.reports()
    print(f"{type(engine.backend).__name__} on {options.device}, kernels: {engine.kernels}")
    print(f"{'phase':<24}{'form':<18}{'tokens':>7}{'error':>11}{'tokens/s':>12}")
    for r in reports:
        print(
            f"{r.phase:<24}{r.form:<18}{r.tokens:>7}{r.error:>11.1e}{r.tokens_per_second:>12,.0f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
