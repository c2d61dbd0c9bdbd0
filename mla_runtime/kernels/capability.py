"""Which GPU a kernel needs, said before a library fails with something unreadable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Capability", "KernelUnavailableError", "capability_of", "require"]

Capability = tuple[int, int]


class KernelUnavailableError(RuntimeError):
    """A kernel does not exist for this device, or its library is not usable here."""


def capability_of(device: torch.device) -> Capability:
    """The compute capability of a CUDA device.

    Raises:
        KernelUnavailableError: not a CUDA device.
    """
    if device.type != "cuda":
        raise KernelUnavailableError(
            f"the GPU kernels need a CUDA device, got {device}; use TorchMLABackend there"
        )
    if not torch.cuda.is_available():
        raise KernelUnavailableError(
            f"{device} is asked for, but torch {torch.__version__} sees no CUDA device"
        )
    return torch.cuda.get_device_capability(device)


def require(
    kernel: str, capability: Capability, supported: Collection[Capability], instead: str
) -> None:
    """Refuse a device that a kernel was not built for.

    Raises:
        KernelUnavailableError: names the kernel, both architectures and what to use instead.
    """
    if capability not in supported:
        needed = ", ".join(_sm(c) for c in sorted(supported))
        raise KernelUnavailableError(
            f"{kernel} needs {needed}; this device is {_sm(capability)}. Use {instead}"
        )


def _sm(capability: Capability) -> str:
    return f"SM{capability[0]}{capability[1]}"
