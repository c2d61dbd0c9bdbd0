"""The extend phases of one layer against the bare kernels, for ``bench_decode --prefill``."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from mla_runtime import (
    AttentionForm,
    EngineSettings,
    ForwardMode,
    MlaModelConfig,
    create_backend,
)
from mla_runtime.kernels.capability import capability_of
from mla_runtime.kernels.flashinfer_library import load_library
from mla_runtime.kernels.flashinfer_paged import paged_backend
from mla_runtime.kernels.flashinfer_planned import ragged_backend
from mla_runtime.mla_core import plan_form
from mla_runtime.workspace import WorkspaceKind, workspace
from tests.bench.decode_cells import markdown
from tests.bench.timing import Step, taken_in_turns
from tests.runtime.world import Pass, World

DEVICE = torch.device("cuda")
PAGE, HEAD_DIM_QK = 64, 192
HEADER = (
    "heads",
    "requests",
    "prefix",
    "new",
    "form",
    "layer ms",
    "bare ms",
    "ratio",
    "TFLOP/s",
    "of matrix",
)


@dataclass(frozen=True)
class Extend:
    """``requests`` of ``new`` tokens each after ``prefix`` cached ones, in a form."""

    requests: int
    prefix: int
    new: int
    form: AttentionForm


SHAPES = (
    Extend(1, 0, 8192, AttentionForm.MHA_ONE_SHOT),
    Extend(8, 0, 1024, AttentionForm.MHA_ONE_SHOT),
    Extend(4, 4096, 1024, AttentionForm.MHA_ONE_SHOT),
    Extend(4, 4096, 1024, AttentionForm.MHA_CHUNKED_KV),
    Extend(4, 4096, 64, AttentionForm.MLA),
)


def prefill_table(matrix: float) -> str:
    """The layer's attention with its projections by ``kv_b`` and the cache write; bf16.

    The bare kernels are those of the form over the same lengths: ragged ones over keys and values
    that are expanded already, the paged one over the cache. FLOPs are those of the bare kernels;
    ``matrix`` is the ceiling in TFLOP/s.
    """
    return markdown(HEADER, (line for heads in (16, 128) for line in _lines(heads, matrix)))


def _lines(heads: int, matrix: float) -> Iterator[tuple[str, ...]]:
    for shape in SHAPES:
        layer, bare, flops = _steps(heads, shape)
        ours, theirs = taken_in_turns([layer, bare])
        rate = flops / ours / 1e9
        yield (
            str(heads),
            str(shape.requests),
            f"{shape.prefix:,}",
            f"{shape.new:,}",
            shape.form.name,
            f"{ours:.3f}",
            f"{theirs:.3f}",
            f"{ours / theirs:.3f}",
            f"{rate:,.0f}",
            f"{rate / matrix:.1%}",
        )
        torch.cuda.empty_cache()


def _steps(heads: int, shape: Extend) -> tuple[Step, Step, int]:
    """Our layer, the bare kernels, and the floating-point operations of the latter."""
    tokens = shape.prefix + shape.new
    config = MlaModelConfig(num_attention_heads=heads, context_len=tokens)
    world = World(
        config,
        torch.bfloat16,
        page_size=PAGE,
        pages=shape.requests * (tokens // PAGE + 1),
        requests=shape.requests,
        device=str(DEVICE),
        settings=EngineSettings(disable_chunked_prefix_cache=shape.form is AttentionForm.MLA),
    )
    one_pass = world.pass_of(
        ForwardMode.EXTEND, [shape.prefix] * shape.requests, [shape.new] * shape.requests
    )
    backend = create_backend("auto", world.runner)
    backend.init_forward_metadata(one_pass.batch)
    plan_form(backend, one_pass.batch, world.core.req_to_token, 1 << 17, shape.form)
    inputs = [
        x.to(DEVICE) for x in (one_pass.q_nope, one_pass.q_pe, one_pass.latent, one_pass.k_pe)
    ]

    def layer() -> None:
        world.core.attend(shape.form, backend, one_pass.batch, world.device_heads, *inputs)

    pairs = shape.new * shape.prefix + shape.new * (shape.new + 1) // 2
    if shape.form is AttentionForm.MLA:
        widths, bare = 576 + 512, _bare_paged(heads, shape, one_pass, config)
    else:
        widths, bare = 192 + 128, _bare_ragged(heads, shape, config)
    return layer, bare, 2 * shape.requests * heads * pairs * widths


def _indptr(count: int, each: int) -> torch.Tensor:
    return torch.arange(count + 1, dtype=torch.int32, device=DEVICE) * each


def _bare_paged(heads: int, shape: Extend, one_pass: Pass, config: MlaModelConfig) -> Step:
    world, tokens = one_pass.world, shape.prefix + shape.new
    wrapper = load_library().BatchMLAPagedAttentionWrapper(
        workspace(DEVICE, WorkspaceKind.FLASHINFER),
        backend=paged_backend(capability_of(DEVICE), config.kv_lora_rank),
    )
    pages = world.req_to_token.req_to_token[:, :tokens:PAGE] // PAGE
    wrapper.plan(
        _indptr(shape.requests, shape.new),
        _indptr(shape.requests, tokens // PAGE),
        pages.flatten().contiguous(),
        torch.full((shape.requests,), tokens, dtype=torch.int32, device=DEVICE),
        heads,
        config.kv_lora_rank,
        config.qk_rope_head_dim,
        PAGE,
        True,
        config.scaling,
        torch.bfloat16,
        torch.bfloat16,
    )
    rows = world.pool.get_key_buffer(world.layer_id).view(-1, PAGE, config.kv_lora_rank + 64)
    ckv, kpe = rows[..., : config.kv_lora_rank], rows[..., config.kv_lora_rank :]
    query = torch.randn(shape.requests * shape.new, heads, 576, device=DEVICE).bfloat16()
    return functools.partial(wrapper.run, query[..., :512], query[..., 512:], ckv, kpe)


def _bare_ragged(heads: int, shape: Extend, config: MlaModelConfig) -> Step:
    """One causal kernel over all keys in one shot; over chunks the prefix's and the new ones'."""

    def randn(each: int, width: int) -> torch.Tensor:
        return torch.randn(shape.requests * each, heads, width, device=DEVICE).bfloat16()

    one_shot = shape.form is AttentionForm.MHA_ONE_SHOT
    parts = [(shape.prefix + shape.new, True)] if one_shot else [
        (shape.prefix, False), (shape.new, True)
    ]  # fmt: skip
    query, runs = randn(shape.new, HEAD_DIM_QK), []
    for keys, causal in parts:
        wrapper: Any = load_library().BatchPrefillWithRaggedKVCacheWrapper(
            workspace(DEVICE, WorkspaceKind.FLASHINFER),
            kv_layout="NHD",
            backend=ragged_backend(capability_of(DEVICE)),
        )
        wrapper.plan(
            _indptr(shape.requests, shape.new),
            _indptr(shape.requests, keys),
            heads,
            heads,
            HEAD_DIM_QK,
            config.v_head_dim,
            causal=causal,
            sm_scale=config.scaling,
            q_data_type=torch.bfloat16,
            kv_data_type=torch.bfloat16,
        )
        key, value = randn(keys, HEAD_DIM_QK), randn(keys, config.v_head_dim)
        runs.append(functools.partial(wrapper.run, query, key, value, return_lse=not one_shot))

    def step() -> None:
        for run in runs:
            run()

    return step
