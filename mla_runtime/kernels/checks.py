"""What every kernel refuses, said in the same words by the reference and by the adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from mla_runtime.kernels.protocol import PagedPlan, RaggedPlan

__all__ = ["check_paged_plan", "check_query_tokens", "check_ragged_plan", "check_same_length"]


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
) -> None:
    """Refuse metadata that contradict each other; the three tensors are on the host.

    FlashInfer checks these from 0.7.0 on (``mla/_batch_mla``); earlier releases read wild memory.
    """
    batch = kv_len.shape[0]
    if batch == 0:
        raise ValueError("an MLA plan needs a nonempty batch: kv_len has shape [0]")
    _check_indptr("qo_indptr", qo_indptr, batch)
    _check_indptr("kv_indptr", kv_indptr, batch)
    if plan.page_size < 1:
        raise ValueError(f"page_size={plan.page_size}; expected at least 1")
    pages = torch.div(kv_len + plan.page_size - 1, plan.page_size, rounding_mode="floor")
    planned = kv_indptr[1:] - kv_indptr[:-1]
    if not torch.equal(pages.to(torch.int64), planned.to(torch.int64)):
        raise ValueError(
            f"kv_indptr gives {planned.tolist()} pages per request, but kv_len "
            f"{kv_len.tolist()} with page_size={plan.page_size} needs {pages.tolist()}"
        )
    if plan.kv_indices.shape[0] < int(kv_indptr[-1]):
        raise ValueError(
            f"kv_indices holds {plan.kv_indices.shape[0]} pages; kv_indptr[-1] is "
            f"{int(kv_indptr[-1])}"
        )


def check_ragged_plan(plan: RaggedPlan, qo_indptr: torch.Tensor, kv_indptr: torch.Tensor) -> None:
    """As ``check_paged_plan``, for a ragged batch."""
    batch = qo_indptr.shape[0] - 1
    if batch <= 0:
        raise ValueError("a ragged plan needs a nonempty batch: qo_indptr has shape [1]")
    _check_indptr("qo_indptr", qo_indptr, batch)
    _check_indptr("kv_indptr", kv_indptr, batch)
    if plan.num_qo_heads % plan.num_kv_heads:
        raise ValueError(
            f"num_qo_heads={plan.num_qo_heads} does not divide by num_kv_heads={plan.num_kv_heads}"
        )


def _check_indptr(name: str, indptr: torch.Tensor, batch: int) -> None:
    if indptr.shape != (batch + 1,):
        raise ValueError(f"{name} has shape {list(indptr.shape)}; expected [{batch + 1}]")
    if int(indptr[0]) != 0 or bool((indptr[1:] < indptr[:-1]).any()):
        raise ValueError(f"{name} must start at 0 and not decrease, got {indptr.tolist()}")
