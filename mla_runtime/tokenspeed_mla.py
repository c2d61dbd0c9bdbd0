"""MLA over the tokenspeed-mla kernels, an optional plug-in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mla_runtime.trtllm_mla import TRTLLMMLABackend

if TYPE_CHECKING:
    import torch

    from mla_runtime.kernels.protocol import BlockKernels, PlannedKernels
    from mla_runtime.protocols import ModelRunnerLike

__all__ = ["TokenspeedMLABackend"]


class TokenspeedMLABackend(TRTLLMMLABackend):
    """As its parent, over an e4m3 cache only.

    Hooks per SGLang 0.5.20, ``layers/attention/tokenspeed_mla_backend.py``; 0.5.23 keeps the name
    as an alias of its CuTe DSL backend.
    """

    fp8_only: bool = True

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
            backend="tokenspeed",
            kernels=kernels,
            decode_kernels=decode_kernels,
        )
