"""Queries of unequal number, laid out as the rectangle that a block-table kernel reads."""

from __future__ import annotations

import torch

__all__ = ["pad_queries", "unpad_outputs"]


def pad_queries(
    query: torch.Tensor, q_lens_cpu: torch.Tensor | None, batch_size: int, max_q: int
) -> torch.Tensor:
    """``[B, max_q, H, D]`` of ``query[T, H, D]``: each request's rows first, then zeros.

    ``q_lens_cpu[B]`` is None where every request has ``max_q`` queries.

    Raises:
        ValueError: ``T`` is not the number of planned queries (a stale plan).
    """
    planned = batch_size * max_q if q_lens_cpu is None else int(q_lens_cpu.sum())
    if query.shape[0] != planned:
        raise ValueError(
            f"q.shape[0] ({query.shape[0]}) does not match the {planned} query tokens planned for "
            f"{batch_size} requests"
        )
    if q_lens_cpu is None:
        return query.view(batch_size, max_q, *query.shape[1:])
    # Bytes, since an indexed write into fp8 is not implemented on every device.
    raw = query.view(torch.uint8) if query.dtype.itemsize == 1 else query
    padded = raw.new_zeros(batch_size, max_q, *query.shape[1:])
    padded[_occupied(q_lens_cpu, max_q).to(query.device)] = raw
    return padded.view(query.dtype)


def unpad_outputs(out: torch.Tensor, q_lens_cpu: torch.Tensor | None) -> torch.Tensor:
    """``[T, H, D]`` of ``out[B, max_q, H, D]``, the padding rows dropped."""
    if q_lens_cpu is None:
        return out.flatten(0, 1)
    return out[_occupied(q_lens_cpu, out.shape[1]).to(out.device)]


def _occupied(q_lens_cpu: torch.Tensor, max_q: int) -> torch.Tensor:
    return torch.arange(max_q)[None, :] < q_lens_cpu[:, None]
