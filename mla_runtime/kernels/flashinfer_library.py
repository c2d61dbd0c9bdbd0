"""The part of flashinfer-python that the runtime calls, imported when a GPU needs it."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import re
from dataclasses import dataclass
from typing import Any

from mla_runtime.kernels.capability import KernelUnavailableError

__all__ = ["SUPPORTED", "FlashInferLibrary", "accepts", "check_version", "load_library"]

SUPPORTED = ((0, 6, 17), (0, 8, 0))
"""From the first release, to below the second; tested with 0.6.18.post1."""


@dataclass(frozen=True, slots=True)
class FlashInferLibrary:
    """Entry points of one release; ``MLAPlanMetadata`` is None before 0.7.0."""

    version: str
    BatchMLAPagedAttentionWrapper: Any
    BatchPrefillWithRaggedKVCacheWrapper: Any
    merge_state: Any
    trtllm_batch_decode_with_kv_cache_mla: Any
    trtllm_ragged_attention_deepseek: Any
    MLAPlanMetadata: Any = None


def check_version(version: str) -> None:
    """Refuse a release whose entry points the adapter does not know.

    Raises:
        KernelUnavailableError: names the release and the supported range.
    """
    numbers = tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0])[:3])
    if not SUPPORTED[0] <= numbers < SUPPORTED[1]:
        raise KernelUnavailableError(
            f"flashinfer-python {version} is not supported; install >=0.6.17,<0.8 (tested: "
            f"0.6.18.post1). Releases before 0.6.17 lack the caller-owned counters of TRT-LLM's "
            f"decode"
        )


def load_library() -> FlashInferLibrary:
    """Import flashinfer. Only for a CUDA device: on a CPU build of torch the import can fail.

    Raises:
        KernelUnavailableError: not installed, not supported, or not importable.
    """
    try:
        version = importlib.metadata.version("flashinfer-python")
    except importlib.metadata.PackageNotFoundError:
        raise KernelUnavailableError(
            "flashinfer-python is not installed; install mla-guard[gpu], or use TorchMLABackend"
        ) from None
    check_version(version)
    try:
        mla = importlib.import_module("flashinfer.mla")
        prefill = importlib.import_module("flashinfer.prefill")
        cascade = importlib.import_module("flashinfer.cascade")
    except (ImportError, AssertionError, RuntimeError) as error:
        # 0.6.14 to 0.7.0.post1 with nvidia-cutlass-dsl assert at import that torch has CUDA.
        raise KernelUnavailableError(
            f"flashinfer-python {version} is installed but does not import: "
            f"{type(error).__name__}: {error}"
        ) from error
    return FlashInferLibrary(
        version=version,
        BatchMLAPagedAttentionWrapper=mla.BatchMLAPagedAttentionWrapper,
        BatchPrefillWithRaggedKVCacheWrapper=prefill.BatchPrefillWithRaggedKVCacheWrapper,
        merge_state=cascade.merge_state,
        trtllm_batch_decode_with_kv_cache_mla=mla.trtllm_batch_decode_with_kv_cache_mla,
        trtllm_ragged_attention_deepseek=prefill.trtllm_ragged_attention_deepseek,
        MLAPlanMetadata=getattr(mla, "MLAPlanMetadata", None),
    )


def accepts(function: Any, parameter: str) -> bool:
    """Whether this release's function has a parameter of that name."""
    return parameter in inspect.signature(function).parameters
