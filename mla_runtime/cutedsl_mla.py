"""MLA decode over FlashInfer's CuTe DSL kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mla_runtime.trtllm_mla import TRTLLMMLABackend

if TYPE_CHECKING:
    import torch

    from mla_runtime.kernels.protocol import BlockKernels, PlannedKernels
    from mla_runtime.protocols import ModelRunnerLike

__all__ = ["CuteDslMLABackend"]


class CuteDslMLABackend(TRTLLMMLABackend):
    """As its parent, with a decode kernel that reads any page size from 2 to 128 that divides 128.

    Hooks per SGLang 0.5.23, ``layers/attention/cutedsl_mla_backend.py``.
    """

    page_sizes: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128)

    def __init__(
        self,
        model_runner: ModelRunnerLike,
        skip_prefill: bool = False,
        kv_indptr_buf: torch.Tensor | None = None,
        q_indptr_decode_buf: torch.Tensor | None = None,
        *,
        kernels: PlannedKernels | None = None,
        decode_kernels: BlockKernels | None = None,
    ) -> None:
        super().__init__(
            model_runner,
            skip_prefill,
            kv_indptr_buf,
            q_indptr_decode_buf,
            backend="cute-dsl",
            kernels=kernels,
            decode_kernels=decode_kernels,
        )
