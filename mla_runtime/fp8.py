"""How rows become fp8: divided by a scale, of the tensor or of each row, and saturated."""

from __future__ import annotations

import torch

__all__ = ["FP8_DTYPES", "row_scales", "stored_rows"]

FP8_DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2)


def stored_rows(
    rows: torch.Tensor, dtype: torch.dtype, scale: float | torch.Tensor
) -> torch.Tensor:
    """Rows as a cache of ``dtype`` stores them: fp8 ``rows / scale``, saturated, else a cast."""
    if dtype not in FP8_DTYPES or rows.dtype == dtype:
        return rows.to(dtype)
    limit = torch.finfo(dtype).max
    return (rows.to(torch.float32) / scale).clamp_(-limit, limit).to(dtype)


def row_scales(latent: torch.Tensor, rope: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """For each row its largest absolute value over ``dtype``'s, 1 for zeros: float32 ``[n, 1, 1]``.

    ``latent[n, 1, rank]`` and ``rope[n, 1, rope]`` are the two parts of the rows.
    """
    largest = torch.maximum(latent.float().abs().amax(-1), rope.float().abs().amax(-1))
    return torch.where(largest > 0, largest / torch.finfo(dtype).max, 1.0)[..., None]
