"""What every kernel refuses, said in the same words by the reference and by the adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from mla_runtime.kernels.protocol import PagedPlan, RaggedPlan

__all__ = [
    "check_paged_plan",
    "check_query_tokens",
    "check_ragged_plan",
    "check_same_length",
    "one_scale",
]


def check_query_tokens(q: torch.Tensor, planned: int, kind: str) -> None:
    """Refuse a plan made for another batch, in FlashInfer's words (0.6.18.post1, prefill.py)."""
    if q.shape[0] != planned:
        raise ValueError(
            f"q.shape[0] ({q.shape[0]}) does not match qo_indptr[-1] ({planned}). For {kind}, q "
            f"must have shape [total_tokens, num_heads, head_dim] where total_tokens = "
            f"qo_indptr[-1]."
        )


def check_same_length(name: str, tensor: torch.Tensor, expected: int, whence: str) -> None:
    """Refuse a tensor whose first dimension is not what the plan expects."""
    if tensor.shape[0] != expected:
        raise ValueError(
            f"{name}.shape[0] ({tensor.shape[0]}) does not match {whence} ({expected})"
        )


def check_paged_plan(
    plan: PagedPlan, qo_indptr: torch.Tensor, kv_indptr: torch.Tensor, kv_len: torch.Tensor
) -> int:
    """The most query tokens of a request; refuses metadata that contradict each other.

    The three tensors are on the host. FlashInfer checks these from 0.7.0 on
    (``mla/_batch_mla``); earlier releases read wild memory.
    """
    batch = kv_len.shape[0]
    if batch == 0:
        raise ValueError("an MLA plan needs a nonempty batch: kv_len has shape [0]")
    queries = _lens_of("qo_indptr", qo_indptr, batch)
    planned = _lens_of("kv_indptr", kv_indptr, batch)
    size = plan.page_size
    if size < 1:
        raise ValueError(f"page_size={size}; expected at least 1")
    least, most = torch.aminmax(planned * size - kv_len)
    if int(least) < 0 or int(most) >= size:
        pages = torch.div(kv_len + size - 1, size, rounding_mode="floor")
        raise ValueError(
            f"kv_indptr gives {planned.tolist()} pages per request, but kv_len "
            f"{kv_len.tolist()} with page_size={size} needs {pages.tolist()}"
        )
    total = int(kv_indptr[-1])
    if plan.kv_indices.shape[0] < total:
        raise ValueError(
            f"kv_indices holds {plan.kv_indices.shape[0]} pages; kv_indptr[-1] is {total}"
        )
    return int(queries.max())


def one_scale(kv_scale: float | torch.Tensor) -> float:
    """The scale of a whole cache, for a kernel that takes one."""
    if isinstance(kv_scale, torch.Tensor):
        raise ValueError(
            "the pool has scales per token, and this kernel takes one per layer; make the pool "
            "with kv_scales"
        )
    return kv_scale


def check_ragged_plan(plan: RaggedPlan, qo_indptr: torch.Tensor, kv_indptr: torch.Tensor) -> None:
    """As ``check_paged_plan``, for a ragged batch."""
    batch = qo_indptr.shape[0] - 1
    if batch <= 0:
        raise ValueError("a ragged plan needs a nonempty batch: qo_indptr has shape [1]")
    _lens_of("qo_indptr", qo_indptr, batch)
    _lens_of("kv_indptr", kv_indptr, batch)
    if plan.num_qo_heads % plan.num_kv_heads:
        raise ValueError(
            f"num_qo_heads={plan.num_qo_heads} does not divide by num_kv_heads={plan.num_kv_heads}"
        )


def _lens_of(name: str, indptr: torch.Tensor, batch: int) -> torch.Tensor:
    """The differences of an indptr, ``[batch]``."""
    if indptr.shape != (batch + 1,):
        raise ValueError(f"{name} has shape {list(indptr.shape)}; expected [{batch + 1}]")
    lens = indptr[1:] - indptr[:-1]
    if int(indptr[0]) != 0 or int(lens.min()) < 0:
        raise ValueError(f"{name} must start at 0 and not decrease, got {indptr.tolist()}")
    return lens
