"""The dtype in which decays, states and norms are computed."""

from __future__ import annotations

import torch

__all__ = ["wide"]


def wide(x: torch.Tensor) -> torch.Tensor:
    """``x`` as float32, or as it is where it is float64: states add up many small terms."""
    return x if x.dtype == torch.float64 else x.float()
