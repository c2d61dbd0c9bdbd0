"""The embedded default: every mode, no kernel library, any device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mla_runtime.flashinfer_mla import FlashInferMLAAttnBackend
from mla_runtime.kernels.torch_planned import TorchPlannedKernels

if TYPE_CHECKING:
    import torch

    from mla_runtime.protocols import ModelRunnerLike

__all__ = ["TorchMLABackend"]


class TorchMLABackend(FlashInferMLAAttnBackend):
    """The same metadata over the torch reference kernels, also where a GPU is present."""

    def __init__(
        self,
        model_runner: ModelRunnerLike,
        skip_prefill: bool = False,
        kv_indptr_buf: torch.Tensor | None = None,
        q_indptr_decode_buf: torch.Tensor | None = None,
    ) -> None:
        super().__init__(
            model_runner,
            skip_prefill,
            kv_indptr_buf,
            q_indptr_decode_buf,
            kernels=TorchPlannedKernels(),
        )
