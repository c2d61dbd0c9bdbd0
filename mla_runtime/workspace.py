"""Scratch memory of the kernels: one buffer per device and kind, on first use."""

from __future__ import annotations

from enum import Enum

import torch

__all__ = ["WorkspaceKind", "workspace"]

_MIB = 1 << 20


class WorkspaceKind(Enum):
    """Kernels that may share a buffer because they leave it as the next one expects it.

    TRT-LLM's kernels keep counters that must start at zero and are left at zero; the CuTe DSL and
    tokenspeed kernels overwrite the whole buffer, so that none of the three may share one.
    """

    FLASHINFER = "flashinfer"
    TRTLLM = "trtllm-gen"
    CUTE_DSL = "cute-dsl"
    TOKENSPEED = "tokenspeed"

    @property
    def default_bytes(self) -> int:
        """Size where the caller names none; tokenspeed's depends on the model."""
        return _DEFAULT_MIB[self] * _MIB

    @property
    def zeroed(self) -> bool:
        """Whether the kernels count on zeros at first use."""
        return self in (WorkspaceKind.TRTLLM, WorkspaceKind.CUTE_DSL)


_DEFAULT_MIB = {
    WorkspaceKind.FLASHINFER: 384,
    WorkspaceKind.TRTLLM: 150,
    WorkspaceKind.CUTE_DSL: 150,
    WorkspaceKind.TOKENSPEED: 0,
}
_BUFFERS: dict[tuple[torch.device, WorkspaceKind], list[torch.Tensor]] = {}


def workspace(device: torch.device, kind: WorkspaceKind, nbytes: int | None = None) -> torch.Tensor:
    """The device's uint8 buffer of a kind, of at least ``nbytes`` (default: the kind's).

    Outgrown buffers are kept: a captured graph may still write to them.
    """
    needed = kind.default_bytes if nbytes is None else nbytes
    key = _indexed(device), kind
    buffers = _BUFFERS.setdefault(key, [])
    if not buffers or buffers[-1].numel() < needed:
        buffer = torch.empty(needed, dtype=torch.uint8, device=device)
        buffers.append(buffer.zero_() if kind.zeroed else buffer)
    return buffers[-1]


def _indexed(device: torch.device) -> torch.device:
    """``cuda`` and the current ``cuda:0`` are one device."""
    return torch.empty(0, device=device).device
