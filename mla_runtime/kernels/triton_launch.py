"""Launching a Triton kernel again without binding and specialising its arguments again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton

if TYPE_CHECKING:
    import torch

__all__ = ["Launcher"]

_TAKES_ALL_ARGUMENTS = triton.__version__.startswith("3.6.")
"""A compiled kernel of Triton 3.6 is launched with its constants too; earlier ones are not."""


class Launcher:
    """A kernel whose parameters are tensors, then numbers that are not specialised, then constants.

    Triton looks at every argument of every call, 20 us on a slow host where the launch itself takes
    4. What it looks for is here in one key: dtypes, 16-byte alignment and the constants.
    """

    def __init__(self, kernel: Any, **options: int) -> None:
        """``options`` are Triton's own, such as ``num_warps``."""
        self._kernel = kernel
        self._options = options
        self._compiled: dict[tuple[object, ...], Any] = {}

    def __call__(
        self,
        grid: tuple[int, int, int],
        tensors: tuple[torch.Tensor, ...],
        numbers: tuple[float, ...],
        constants: tuple[object, ...],
    ) -> None:
        key = (
            tensors[0].device,
            constants,
            *[(tensor.dtype, tensor.data_ptr() % 16 == 0) for tensor in tensors],
        )
        compiled = self._compiled.get(key)
        if compiled is not None:
            compiled[grid](*tensors, *numbers, *constants)
            return
        compiled = self._kernel[grid](*tensors, *numbers, *constants, **self._options)
        if _TAKES_ALL_ARGUMENTS and compiled is not None:
            self._compiled[key] = compiled
