"""Which kernels serve a device: the torch reference, or a library that is imported only now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mla_runtime.kernels.torch_blocks import TorchBlockKernels
from mla_runtime.kernels.torch_planned import TorchPlannedKernels

if TYPE_CHECKING:
    import torch

    from mla_runtime.kernels.protocol import BlockKernels, PlannedKernels

__all__ = ["block_kernels", "planned_kernels"]


def planned_kernels(device: torch.device) -> PlannedKernels:
    """FlashInfer's planned kernels on a CUDA device, the torch reference elsewhere."""
    if device.type != "cuda":
        return TorchPlannedKernels()
    from mla_runtime.kernels.flashinfer_planned import FlashInferPlannedKernels

    return FlashInferPlannedKernels(device)


def block_kernels(device: torch.device, library: str) -> BlockKernels:
    """The block-table kernels of ``library`` on a CUDA device, the torch reference elsewhere.

    ``library`` is ``"trtllm-gen"``, ``"cute-dsl"`` or ``"tokenspeed"``.

    Raises:
        ValueError: an unknown library.
    """
    if library not in ("trtllm-gen", "cute-dsl", "tokenspeed"):
        raise ValueError(f"backend={library!r}; expected 'trtllm-gen', 'cute-dsl' or 'tokenspeed'")
    if device.type != "cuda":
        return TorchBlockKernels()
    if library == "tokenspeed":
        from mla_runtime.kernels.tokenspeed_blocks import TokenspeedBlockKernels

        return TokenspeedBlockKernels(device)
    from mla_runtime.kernels.flashinfer_blocks import FlashInferBlockKernels

    return FlashInferBlockKernels(device, "trtllm-gen" if library == "trtllm-gen" else "cute-dsl")
