"""What a linear backend asks of a kernel library, the torch reference of it, and the choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mla_runtime.linear.delta_rule import chunked, recurrent

if TYPE_CHECKING:
    import torch

    from mla_runtime.linear.delta_rule import DeltaInputs
    from mla_runtime.linear.sequences import Sequences

__all__ = ["LinearKernels", "TorchLinearKernels", "linear_kernels"]


class LinearKernels(Protocol):
    """The gated delta rule in two forms; shapes and dtypes as in ``linear.delta_rule``."""

    @property
    def name(self) -> str: ...

    def chunked(
        self, inputs: DeltaInputs, initial: torch.Tensor, sequences: Sequences
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """``(out[T, H_v, V], final[N, H_v, K, V])``, for requests with many tokens."""
        ...

    def recurrent(
        self,
        inputs: DeltaInputs,
        initial: torch.Tensor,
        sequences: Sequences,
        *,
        every_state: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """``(out, final, states[N, L, H_v, K, V])``, for requests with ``L`` tokens each.

        May be captured as a CUDA graph. ``states`` only where ``every_state`` asks for them.
        """
        ...


class TorchLinearKernels:
    """The reference, on any device."""

    name = "torch"

    def chunked(
        self, inputs: DeltaInputs, initial: torch.Tensor, sequences: Sequences
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return chunked(inputs, initial, sequences)

    def recurrent(
        self,
        inputs: DeltaInputs,
        initial: torch.Tensor,
        sequences: Sequences,
        *,
        every_state: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        return recurrent(inputs, initial, sequences, every_state=every_state)


def linear_kernels(device: torch.device) -> LinearKernels:
    """fla-core's kernels on a CUDA device where it is installed, the torch reference elsewhere.

    Raises:
        KernelUnavailableError: a CUDA device with a release of fla-core that is not supported.
    """
    if device.type != "cuda":
        return TorchLinearKernels()
    from mla_runtime.linear.fla_kernels import FlaLinearKernels, installed_version, load_fla

    version = installed_version()
    return TorchLinearKernels() if version is None else FlaLinearKernels(load_fla(version))
