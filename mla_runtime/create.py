"""Which backend serves a runner: by name, or by what its device can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mla_runtime.cutedsl_mla import CuteDslMLABackend
from mla_runtime.flashinfer_mla import FlashInferMLAAttnBackend
from mla_runtime.kernels.capability import capability_of
from mla_runtime.linear.gdn import GDNAttnBackend
from mla_runtime.linear.kda import KDAAttnBackend
from mla_runtime.linear.lightning import LightningAttnBackend
from mla_runtime.multi_step_draft import (
    CuteDslMLAMultiStepDraftBackend,
    FlashInferMLAMultiStepDraftBackend,
    TokenspeedMLAMultiStepDraftBackend,
    TorchMLAMultiStepDraftBackend,
    TRTLLMMLAMultiStepDraftBackend,
)
from mla_runtime.tokenspeed_mla import TokenspeedMLABackend
from mla_runtime.torch_mla import TorchMLABackend
from mla_runtime.trtllm_mla import TRTLLMMLABackend

if TYPE_CHECKING:
    from mla_runtime.kernels.capability import Capability
    from mla_runtime.linear.backend import LinearAttnBackend
    from mla_runtime.protocols import ModelRunnerLike

__all__ = [
    "BACKENDS",
    "DRAFT_BACKENDS",
    "LINEAR_BACKENDS",
    "choose_backend",
    "create_backend",
    "create_draft_backend",
    "kernels_of",
]

BACKENDS: dict[str, type[FlashInferMLAAttnBackend]] = {
    "torch": TorchMLABackend,
    "flashinfer": FlashInferMLAAttnBackend,
    "trtllm_mla": TRTLLMMLABackend,
    "cutedsl_mla": CuteDslMLABackend,
    "tokenspeed_mla": TokenspeedMLABackend,
}
"""Every backend by the name under which SGLang configures it."""

LINEAR_BACKENDS: dict[str, type[LinearAttnBackend]] = {
    "lightning": LightningAttnBackend,
    "gdn": GDNAttnBackend,
    "kda": KDAAttnBackend,
}
"""Every linear backend by the kind of attention that it computes."""

DRAFT_BACKENDS: dict[str, type[FlashInferMLAMultiStepDraftBackend]] = {
    "torch": TorchMLAMultiStepDraftBackend,
    "flashinfer": FlashInferMLAMultiStepDraftBackend,
    "trtllm_mla": TRTLLMMLAMultiStepDraftBackend,
    "cutedsl_mla": CuteDslMLAMultiStepDraftBackend,
    "tokenspeed_mla": TokenspeedMLAMultiStepDraftBackend,
}
"""The multi-step draft backend that goes with each of ``BACKENDS``."""


def choose_backend(capability: Capability | None, page_size: int) -> str:
    """The name that ``"auto"`` stands for; ``capability`` is None for a device without CUDA.

    TRT-LLM's kernels on SM100 and SM103 where the pool's pages are theirs, FlashInfer's from SM80
    on, the torch reference elsewhere.
    """
    if capability is None or capability < (8, 0):
        return "torch"
    if capability in ((10, 0), (10, 3)) and page_size in TRTLLMMLABackend.page_sizes:
        return "trtllm_mla"
    return "flashinfer"


def create_backend(
    name: str, model_runner: ModelRunnerLike, *, skip_prefill: bool = False
) -> FlashInferMLAAttnBackend:
    """The backend ``name`` for a runner; ``"auto"`` chooses by its device.

    Raises:
        ValueError: an unknown name, or a page size or dtype that the backend does not serve.
        KernelUnavailableError: the device or the installed libraries lack its kernels.
    """
    return BACKENDS[_resolved(name, model_runner)](model_runner, skip_prefill)


def create_draft_backend(
    name: str, model_runner: ModelRunnerLike, topk: int, speculative_num_steps: int
) -> FlashInferMLAMultiStepDraftBackend:
    """The multi-step draft backend of the same name; raises as ``create_backend`` does."""
    return DRAFT_BACKENDS[_resolved(name, model_runner)](model_runner, topk, speculative_num_steps)


def kernels_of(backend: FlashInferMLAAttnBackend) -> str:
    """The kernel libraries under a backend, for people."""
    names = [backend.kernels.name]
    if isinstance(backend, TRTLLMMLABackend):
        names.insert(0, backend.block_kernels.name)
    return " + ".join(dict.fromkeys(names))


def _resolved(name: str, model_runner: ModelRunnerLike) -> str:
    if name == "auto":
        device = torch.device(model_runner.device)
        capability = capability_of(device) if device.type == "cuda" else None
        return choose_backend(capability, model_runner.page_size)
    if name not in BACKENDS:
        raise ValueError(f"backend {name!r}; expected 'auto' or one of {', '.join(BACKENDS)}")
    return name
