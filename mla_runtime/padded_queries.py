"""Queries of unequal number, laid out as the rectangle that a block-table kernel reads."""

from __future__ import annotations

import torch

__all__ = ["pad_queries", "padded_rows", "unpad_outputs"]


def padded_rows(q_lens: torch.Tensor, max_q: int) -> torch.Tensor:
    """Where each query token stands in ``[B * max_q]`` rows, each request's own first: ``[T]``."""
    return (torch.arange(max_q)[None, :] < q_lens[:, None]).flatten().nonzero()[:, 0]


def pad_queries(
    query: torch.Tensor, rows: torch.Tensor | None, batch_size: int, max_q: int
) -> torch.Tensor:
    """``[B, max_q, H, D]`` of ``query[T, H, D]``, zero where no token stands.

    ``rows`` is ``padded_rows``'s, None where every request has ``max_q`` queries.

    Raises:
        ValueError: ``T`` is not the number of planned queries (a stale plan).
    """
    planned = batch_size * max_q if rows is None else rows.shape[0]
    if query.shape[0] != planned:
        raise ValueError(
            f"q.shape[0] ({query.shape[0]}) does not match the {planned} query tokens planned for "
            f"{batch_size} requests"
        )
    if rows is None:
        return query.view(batch_size, max_q, *query.shape[1:])
    # Bytes, since an indexed write into fp8 is not implemented on every device.
    raw = query.view(torch.uint8) if query.dtype.itemsize == 1 else query
    padded = raw.new_zeros(batch_size * max_q, *query.shape[1:])
    padded[rows] = raw
    return padded.view(query.dtype).view(batch_size, max_q, *query.shape[1:])


def unpad_outputs(out: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
    """``[T, H, D]`` of ``out[B, max_q, H, D]``, the padding dropped."""
    flat = out.flatten(0, 1)
    return flat if rows is None else flat[rows]
