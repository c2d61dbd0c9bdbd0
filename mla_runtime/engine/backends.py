"""The backend of an engine: one per kind of layer, of pass and of micro-batch, combined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mla_guard.tree import within
from mla_runtime.create import LINEAR_BACKENDS, create_backend, kernels_of
from mla_runtime.flashinfer_mla import FlashInferMLAAttnBackend
from mla_runtime.hybrid_attn import HybridAttnBackend
from mla_runtime.hybrid_linear import HybridLinearAttnBackend
from mla_runtime.linear.backend import LinearAttnBackend
from mla_runtime.two_batch_overlap import TboAttnBackend

if TYPE_CHECKING:
    from mla_runtime.base import AttentionBackend
    from mla_runtime.engine.options import EngineOptions
    from mla_runtime.runner import ModelRunner

__all__ = ["compose_backend", "described"]


def compose_backend(options: EngineOptions, runner: ModelRunner) -> AttentionBackend:
    """Two-batch overlap around the hybrid of layers, around the split of prefill and decode."""
    if not options.tbo:
        return _of_layers(options, runner)
    primary, *halves = (_of_layers(options, runner) for _ in range(3))
    return TboAttnBackend(primary, halves)


def _of_layers(options: EngineOptions, runner: ModelRunner) -> AttentionBackend:
    full_layers = [i for i, kind in enumerate(options.kinds) if kind == "mla"]
    linear = options.linear_kind
    if linear is None:
        return _of_passes(options, runner)
    return HybridLinearAttnBackend(
        _of_passes(options, runner), LINEAR_BACKENDS[linear](runner), full_layers
    )


def _of_passes(options: EngineOptions, runner: ModelRunner) -> AttentionBackend:
    if not options.split_prefill_decode:
        return create_backend(options.backend, runner)
    return HybridAttnBackend(
        create_backend(options.backend, runner), create_backend(options.backend, runner)
    )


def described(backend: AttentionBackend) -> str:
    """The classes of a backend and of what it wraps, and the kernel libraries under them."""
    everything = [backend, *within(backend)]
    classes = dict.fromkeys(type(b).__name__ for b in everything)
    kernels = dict.fromkeys(
        kernels_of(b) if isinstance(b, FlashInferMLAAttnBackend) else b.kernels.name
        for b in everything
        if isinstance(b, (FlashInferMLAAttnBackend, LinearAttnBackend))
    )
    return f"{' > '.join(classes)}, kernels: {', '.join(kernels)}"
