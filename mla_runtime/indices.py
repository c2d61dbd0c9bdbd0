"""From requests to slots: the index tensors that the kernels read, without a device sync."""

from __future__ import annotations

import torch

__all__ = ["block_table", "gather_pages", "gather_slots", "indptr_of"]


def indptr_of(lens: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """``[0, cumsum(lens)]`` as int32, ``[B + 1]``; written into the head of ``out`` if given."""
    batch = lens.shape[0]
    indptr = lens.new_zeros(batch + 1, dtype=torch.int32) if out is None else out[: batch + 1]
    indptr[1:] = torch.cumsum(lens, dim=0)
    return indptr


def gather_slots(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    lens: torch.Tensor,
    total: int,
    *,
    starts: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """The slots of tokens ``starts[i] .. starts[i] + lens[i]`` of each request, concatenated.

    ``total`` is the sum of ``lens``, known on the host. Returns int32 ``[total]``, written into
    the head of ``out`` if given. One launch on a CUDA device.

    Raises:
        ValueError: ``out`` is shorter than ``total``.
    """
    out = _head_of(out, total, lens.device)
    if lens.is_cuda and lens.shape[0]:
        from mla_runtime.kernels.triton_indices import gather

        gather(req_to_token, req_pool_indices, lens, starts, 0, 1, None, out)
        return out
    rows, positions = _enumerated(lens.long(), total)
    if starts is not None:
        positions = positions + starts.long()[rows]
    return out.copy_(req_to_token[req_pool_indices.long()[rows], positions])


def gather_pages(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    lens: torch.Tensor,
    total: int,
    stride: int,
    first: int,
    indptr: torch.Tensor,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """For the first ``lens[i]`` tokens of each request ``slot // stride`` of every ``stride``-th.

    These are pages of ``stride`` slots, or rows of a cache sharded over ``stride`` ranks, of which
    this one is ``first``. ``total`` is how many there are, known on the host: returns int32
    ``[total]``, written into the head of ``out`` if given. ``indptr``, int32 ``[B + 1]`` with 0
    ahead, takes their offsets. One launch on a CUDA device.

    Raises:
        ValueError: ``out`` is shorter than ``total``.
    """
    out = _head_of(out, total, lens.device)
    if lens.is_cuda and lens.shape[0]:
        from mla_runtime.kernels.triton_indices import gather

        gather(req_to_token, req_pool_indices, lens, None, first, stride, indptr, out)
        return out
    counts = (lens.long() + (stride - 1 - first)) // stride
    indptr_of(counts, out=indptr)
    rows, at = _enumerated(counts, total)
    slots = req_to_token[req_pool_indices.long()[rows], first + at * stride]
    return out.copy_(slots // stride)


def _head_of(out: torch.Tensor | None, total: int, device: torch.device) -> torch.Tensor:
    if out is None:
        return torch.empty(total, dtype=torch.int32, device=device)
    if out.shape[0] < total:
        raise ValueError(f"{total} KV indices do not fit a buffer of {out.shape[0]}")
    return out[:total]


def _enumerated(counts: torch.Tensor, total: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For each of ``total`` entries its request and its place among that request's."""
    rows = torch.repeat_interleave(counts, output_size=total)
    first = torch.cumsum(counts, dim=0) - counts
    return rows, torch.arange(total, device=counts.device) - first[rows]


def block_table(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    lens: torch.Tensor,
    page_size: int,
    blocks: int,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """The pages of each request, int32 ``[B, blocks]``, -1 after its last page.

    A request may count more tokens than ``req_to_token`` is wide, when its query is padded to
    the batch's longest: such tokens are read from page 0, the sink, and their output is dropped.
    All shapes are static, so that the operations may be captured.
    """
    width = req_to_token.shape[1]
    positions = torch.arange(blocks, device=lens.device) * page_size
    in_table = positions.clamp(max=width - 1)
    slots = req_to_token[req_pool_indices.long()[:, None], in_table[None, :]]
    pages = torch.div(slots, page_size, rounding_mode="floor").to(torch.int32)
    pages = torch.where(positions < width, pages, torch.zeros_like(pages))
    pages = torch.where(positions < lens[:, None], pages, torch.full_like(pages, -1))
    if out is None:
        return pages
    out.copy_(pages)
    return out
