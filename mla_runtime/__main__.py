"""``python -m mla_runtime``: a tiny model through every phase on a backend."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import torch

from mla_runtime.create import BACKENDS
from mla_runtime.engine.backends import described
from mla_runtime.engine.engine import TinyEngine
from mla_runtime.engine.generate import generate
from mla_runtime.engine.options import LAYOUTS, EngineOptions
from mla_runtime.engine.phases import phase_reports, warm

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_CACHE_DTYPES = {**_DTYPES, "fp8": torch.float8_e4m3fn}
_GENERATED = 32


def main(arguments: list[str] | None = None) -> int:
    """Run, print the tables, return 0; 1 where speculation changed a token, 2 for bad options."""
    given = _parser().parse_args(arguments)
    cache = _CACHE_DTYPES.get(given.kv_dtype)
    if given.backend == "tokenspeed_mla" and cache is None:
        cache = torch.float8_e4m3fn
    options = EngineOptions(
        model=given.model,
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
        speculative=given.speculative,
        split_prefill_decode=given.split_prefill_decode,
        tbo=given.tbo,
        seed=given.seed,
    )
    if options.device == "cpu":
        torch.set_num_threads(1)  # a second thread waits longer on tensors this small than it helps
    try:
        warm(options)
        engine = TinyEngine(options)
    except (ValueError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    reports = phase_reports(engine)
    print(f"{options.model} on {options.device}: {described(engine.backend)}")
    print(f"{'phase':<24}{'form':<18}{'tokens':>7}{'error':>11}{'tokens/s':>12}")
    for r in reports:
        print(
            f"{r.phase:<24}{r.form:<18}{r.tokens:>7}{r.error:>11.1e}{r.tokens_per_second:>12,.0f}"
        )
    return _speculate(options) if options.speculative else 0


def _speculate(options: EngineOptions) -> int:
    """Generate greedily with and without drafts, and compare."""
    engine = TinyEngine(options)
    prompts = engine.random_tokens([options.prompt + 3 * i for i in range(options.requests)])
    drafted = generate(engine, prompts, _GENERATED)
    plain = generate(TinyEngine(replace(options, speculative=0)), prompts, _GENERATED)
    same = drafted.tokens == plain.tokens
    print(
        f"{_GENERATED} tokens for each of {options.requests} requests: {drafted.passes} passes "
        f"with {options.speculative} drafted tokens ({drafted.accepted} of {drafted.drafted} "
        f"accepted), {plain.passes} without; tokens {'identical' if same else 'DIFFER'}"
    )
    return 0 if same else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mla_runtime", description=__doc__)
    parser.add_argument("--model", default="mla", choices=LAYOUTS)
    parser.add_argument("--backend", default="auto", choices=["auto", *BACKENDS])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=_DTYPES)
    parser.add_argument("--kv-dtype", choices=_CACHE_DTYPES)
    parser.add_argument("--page-size", type=int, default=64)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--layers", type=int, help="default: one period of the model's layers")
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=96, help="tokens of a first prompt")
    parser.add_argument(
        "--speculative", type=int, default=0, metavar="N", help="draft N tokens per step"
    )
    parser.add_argument(
        "--split-prefill-decode", action="store_true", help="one backend for each of them"
    )
    parser.add_argument("--tbo", action="store_true", help="every pass in two halves")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
