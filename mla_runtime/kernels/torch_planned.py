"""The torch reference of the planned kernels: any device, any head count, any page size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mla_runtime.kernels import softmax
from mla_runtime.kernels.checks import (
    check_paged_plan,
    check_query_tokens,
    check_ragged_plan,
    check_same_length,
)
from mla_runtime.kernels.protocol import GraphBuffers, PagedPlan, RaggedPlan, host_or_copy

if TYPE_CHECKING:
    from mla_runtime.kernels.protocol import PagedMla, RaggedAttention

__all__ = ["TorchPagedMla", "TorchPlannedKernels", "TorchRagged"]


class TorchPagedMla:
    """``PagedMla`` as a loop over requests.

    As on the GPU, a run reads the planner's own metadata: eager plans copy what they are given, a
    graph planner copies it into its fixed buffers, and nothing written to the caller's tensors
    later changes the run.
    """

    def __init__(self, graph_buffers: GraphBuffers | None = None) -> None:
        self.graph_buffers = graph_buffers
        self._metadata = graph_buffers
        self._plan: PagedPlan | None = None

    def plan(self, plan: PagedPlan) -> None:
        qo_indptr, kv_indptr, kv_len = plan.on_host()
        check_paged_plan(plan, qo_indptr, kv_indptr, kv_len)
        pages = int(kv_indptr[-1])
        if self.graph_buffers is None:
            self._metadata = GraphBuffers(
                plan.qo_indptr.clone(),
                plan.kv_indptr.clone(),
                plan.kv_indices[:pages].clone(),
                plan.kv_len.clone(),
            )
        else:
            buffers = self.graph_buffers
            check_same_length("kv_len", plan.kv_len, buffers.kv_len.shape[0], "the captured batch")
            if pages > buffers.kv_indices.shape[0]:
                raise ValueError(
                    f"the batch has {pages} pages; the captured kv_indices holds "
                    f"{buffers.kv_indices.shape[0]}"
                )
            buffers.qo_indptr.copy_(plan.qo_indptr)
            buffers.kv_indptr.copy_(plan.kv_indptr)
            buffers.kv_indices[:pages].copy_(plan.kv_indices[:pages])
            buffers.kv_len.copy_(plan.kv_len)
        self._plan = plan

    def run(
        self,
        q_nope: torch.Tensor,
        q_pe: torch.Tensor,
        ckv: torch.Tensor,
        kpe: torch.Tensor,
        *,
        kv_scale: float | torch.Tensor = 1.0,
        into: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        plan, metadata = self._plan, self._metadata
        if plan is None or metadata is None:
            raise RuntimeError("run before plan: the paged MLA kernel has no batch yet")
        _check_paged_inputs(plan, q_nope, q_pe, ckv, kpe)
        qo_indptr = metadata.qo_indptr.tolist()
        kv_indptr = metadata.kv_indptr.tolist()
        kv_len = metadata.kv_len.tolist()
        check_query_tokens(q_nope, qo_indptr[-1], "paged MLA")
        dtype = softmax.accumulation_dtype(q_nope.dtype)
        q = torch.cat([q_nope.to(dtype), q_pe.to(dtype)], dim=-1)
        out, lse = into or (
            q_nope.new_empty(q_nope.shape),
            q_nope.new_empty(q_nope.shape[:2], dtype=dtype),
        )
        for request, length in enumerate(kv_len):
            rows = slice(qo_indptr[request], qo_indptr[request + 1])
            pages = metadata.kv_indices[kv_indptr[request] : kv_indptr[request + 1]].long()
            scale = kv_scale
            if isinstance(scale, torch.Tensor):
                scale = scale.view(-1, plan.page_size)[pages].flatten()[:length, None]
            latent = ckv[pages].flatten(0, 1)[:length].to(dtype) * scale
            rope = kpe[pages].flatten(0, 1)[:length].to(dtype) * scale
            key = torch.cat([latent, rope], dim=-1)[:, None]
            request_out, lse[rows] = softmax.attend(
                q[rows], key, latent[:, None], plan.sm_scale, plan.causal
            )
            out[rows] = request_out.to(out.dtype)
        return out, lse if plan.return_lse else None


class TorchRagged:
    """``RaggedAttention`` as a loop over requests."""

    def __init__(self) -> None:
        self._plan: RaggedPlan | None = None
        self._qo_indptr: list[int] = [0]
        self._kv_indptr: list[int] = [0]

    def plan(self, plan: RaggedPlan) -> None:
        qo_indptr = host_or_copy(plan.qo_indptr, plan.qo_indptr_cpu)
        kv_indptr = host_or_copy(plan.kv_indptr, plan.kv_indptr_cpu)
        check_ragged_plan(plan, qo_indptr, kv_indptr)
        self._qo_indptr = qo_indptr.tolist()
        self._kv_indptr = kv_indptr.tolist()
        self._plan = plan

    def run(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, return_lse: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        plan = self._plan
        if plan is None:
            raise RuntimeError("run before plan: the ragged kernel has no batch yet")
        check_query_tokens(q, self._qo_indptr[-1], "ragged prefill")
        check_same_length("k", k, self._kv_indptr[-1], "kv_indptr[-1]")
        check_same_length("v", v, self._kv_indptr[-1], "kv_indptr[-1]")
        for name, tensor, heads, dim in (
            ("q", q, plan.num_qo_heads, plan.head_dim_qk),
            ("k", k, plan.num_kv_heads, plan.head_dim_qk),
            ("v", v, plan.num_kv_heads, plan.head_dim_vo),
        ):
            _check_trailing(name, tensor, (heads, dim))
        out, lse = ragged_attention(
            q, k, v, self._qo_indptr, self._kv_indptr, plan.sm_scale, plan.causal
        )
        return out, lse if return_lse else None


def ragged_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    qo_indptr: list[int],
    kv_indptr: list[int],
    sm_scale: float,
    causal: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention request by request; the dtype of ``q`` is the dtype of the output."""
    dtype = softmax.accumulation_dtype(q.dtype)
    out = q.new_empty(*q.shape[:2], v.shape[-1])
    lse = q.new_empty(q.shape[:2], dtype=dtype)
    for request in range(len(qo_indptr) - 1):
        rows = slice(qo_indptr[request], qo_indptr[request + 1])
        keys = slice(kv_indptr[request], kv_indptr[request + 1])
        request_out, lse[rows] = softmax.attend(
            q[rows].to(dtype), k[keys].to(dtype), v[keys].to(dtype), sm_scale, causal
        )
        out[rows] = request_out.to(out.dtype)
    return out, lse


class TorchPlannedKernels:
    """``PlannedKernels`` without a kernel library."""

    name = "torch"

    def paged_mla(
        self, device: torch.device, graph_buffers: GraphBuffers | None = None
    ) -> PagedMla:
        return TorchPagedMla(graph_buffers)

    def ragged(self, device: torch.device) -> RaggedAttention:
        return TorchRagged()

    def merge_state(
        self,
        out_a: torch.Tensor,
        lse_a: torch.Tensor,
        out_b: torch.Tensor,
        lse_b: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return softmax.merge_state(out_a, lse_a, out_b, lse_b)


def _check_paged_inputs(
    plan: PagedPlan,
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    ckv: torch.Tensor,
    kpe: torch.Tensor,
) -> None:
    _check_trailing("q_nope", q_nope, (plan.num_heads, plan.head_dim_ckv))
    _check_trailing("q_pe", q_pe, (plan.num_heads, plan.head_dim_kpe))
    _check_trailing("ckv", ckv, (plan.page_size, plan.head_dim_ckv))
    _check_trailing("kpe", kpe, (plan.page_size, plan.head_dim_kpe))
    if q_nope.dtype != plan.q_dtype:
        raise ValueError(f"q_nope has dtype {q_nope.dtype}; the plan expects {plan.q_dtype}")
    if ckv.dtype != plan.kv_dtype:
        raise ValueError(f"ckv has dtype {ckv.dtype}; the plan expects {plan.kv_dtype}")


def _check_trailing(name: str, tensor: torch.Tensor, expected: tuple[int, int]) -> None:
    if tensor.dim() != 3 or tuple(tensor.shape[1:]) != expected:
        raise ValueError(
            f"{name} has shape {list(tensor.shape)}; the plan expects [*, {expected[0]}, "
            f"{expected[1]}]"
        )
