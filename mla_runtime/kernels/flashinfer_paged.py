"""``PagedMla`` over FlashInfer's ``BatchMLAPagedAttentionWrapper``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from mla_runtime.kernels.capability import Capability, KernelUnavailableError
from mla_runtime.kernels.checks import check_paged_plan, check_query_tokens, one_scale
from mla_runtime.kernels.flashinfer_host_plan import PinnedScratch, schedule, schedules_alone
from mla_runtime.kernels.protocol import GraphBuffers, PagedPlan

if TYPE_CHECKING:
    from mla_runtime.kernels.flashinfer_library import FlashInferLibrary

__all__ = ["FlashInferPagedMla", "kernel_heads", "paged_backend"]


def paged_backend(capability: Capability, head_dim_ckv: int) -> str:
    """``"fa3"`` where it exists, else ``"fa2"``: never the library's changing ``"auto"``."""
    return "fa3" if capability == (9, 0) and head_dim_ckv in (128, 256, 512) else "fa2"


def kernel_heads(num_heads: int, causal: bool, max_q: int) -> int:
    """Query heads to launch with, so that no query tile ends inside a token.

    fa2 and fa3 pack tokens times heads into tiles of 64 or 128 rows. Where the heads do not divide
    a tile, a causal request of several tokens can lose its last visible key (scheduler.cuh and
    mla.cuh round differently, 0.6.18.post1; from 0.7.1 on the plan is refused). Zero heads up to
    the next power of two make them divide.

    Raises:
        ValueError: more than 128 heads, which no tile holds.
    """
    if not causal or max_q <= 1:
        return num_heads
    padded = 1 << (num_heads - 1).bit_length()
    if padded > 128:
        raise ValueError(
            f"num_heads={num_heads}: FlashInfer's causal MLA kernels tile at most 128 heads of one "
            f"token; split the heads over more ranks"
        )
    return padded


class FlashInferPagedMla:
    """One planner; the library's wrapper, with its 16 MiB, is made on the first plan.

    Plans that differ from the last in their lengths alone are scheduled on the host and no more,
    where the release lets them be (``flashinfer_host_plan``): every replay, and eager decodes.
    """

    def __init__(
        self,
        library: FlashInferLibrary,
        capability: Capability,
        scratch: Any,
        graph_buffers: GraphBuffers | None = None,
    ) -> None:
        self._library = library
        self._capability = capability
        self._scratch = scratch
        self.graph_buffers = graph_buffers
        self._wrapper: Any = None
        self._plan: PagedPlan | None = None
        self._planned_shape: dict[str, Any] = {}
        self._pinned = PinnedScratch(torch.device("cpu"))
        self._heads = 0
        self._tokens = 0

    def plan(self, plan: PagedPlan) -> None:
        qo_indptr, kv_indptr, kv_len = plan.on_host()
        kv_len = kv_len.to(torch.int32)
        max_q = check_paged_plan(plan, qo_indptr, kv_indptr, kv_len)
        self._check_shape(plan)
        if self._wrapper is None:
            self._wrapper = self._make_wrapper(plan)
            self._pinned = PinnedScratch(plan.kv_indices.device)
        self._heads = kernel_heads(plan.num_heads, plan.causal, max_q)
        self._tokens = int(qo_indptr[-1])
        # Host tensors: the wrapper copies metadata to the host to plan, and waits for device ones.
        metadata = {
            "qo_indptr": qo_indptr,
            "kv_indptr": kv_indptr,
            "kv_indices": plan.kv_indices[: int(kv_indptr[-1])],
            "kv_len_arr": kv_len,
        }
        shape = {
            "num_heads": self._heads,
            "head_dim_ckv": plan.head_dim_ckv,
            "head_dim_kpe": plan.head_dim_kpe,
            "page_size": plan.page_size,
            "causal": plan.causal,
            "sm_scale": plan.sm_scale,
            "q_data_type": plan.q_dtype,
            "kv_data_type": plan.kv_dtype,
        }
        with self._pinned:
            self._plan_wrapper(metadata, shape, plan)
        self._planned_shape, self._plan = shape, plan

    def _plan_wrapper(
        self, metadata: dict[str, torch.Tensor], shape: dict[str, Any], plan: PagedPlan
    ) -> None:
        if self._library.MLAPlanMetadata is not None:
            self._wrapper.plan(
                metadata=self._library.MLAPlanMetadata.csr(**metadata),
                query_layout="split",
                kv_cache_layout="split",
                lse_mode="basee" if plan.return_lse else "none",
                **shape,
            )
        elif shape == self._planned_shape and schedules_alone(self._library, self._wrapper):
            schedule(self._wrapper, metadata, self._heads, plan.head_dim_ckv, plan.causal)
        else:
            self._planned_shape = {}  # what a refused plan leaves is not scheduled upon
            self._wrapper.plan(**metadata, **shape)

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
        plan = self._plan
        if plan is None:
            raise RuntimeError("run before plan: the paged MLA kernel has no batch yet")
        check_query_tokens(q_nope, self._tokens, "paged MLA")
        heads, padded = plan.num_heads, self._heads != plan.num_heads
        if padded:
            q_nope, q_pe = _with_heads(q_nope, self._heads), _with_heads(q_pe, self._heads)
        inputs: dict[str, Any] = (
            {"q_nope": q_nope, "q_pe": q_pe, "ckv_cache": ckv, "kpe_cache": kpe}
            if self._library.MLAPlanMetadata is None
            else {"query": (q_nope, q_pe), "kv_cache": (ckv, kpe)}
        )
        if plan.kv_dtype == torch.float8_e4m3fn:
            scale = one_scale(kv_scale)
            inputs.update(ckv_scale=scale, kpe_scale=scale)
        if into is None or padded:
            inputs["out"] = torch.empty_like(q_nope, memory_format=torch.contiguous_format)
        else:
            inputs["out"], inputs["lse"] = into
        result = self._wrapper.run(
            **inputs, return_lse=plan.return_lse, return_lse_base_on_e=plan.return_lse
        )
        out, lse = result if plan.return_lse else (result, None)
        if padded:
            out = out[:, :heads].contiguous()
            lse = None if lse is None else lse[:, :heads]
        if padded and into is not None and lse is not None:
            out, lse = into[0].copy_(out), into[1].copy_(lse)
        # Already canonical: these kernels write natural LSEs on request, and -inf without a key.
        return out, lse

    def _make_wrapper(self, plan: PagedPlan) -> Any:
        buffers = self.graph_buffers
        return self._library.BatchMLAPagedAttentionWrapper(
            float_workspace_buffer=self._scratch(),
            use_cuda_graph=buffers is not None,
            qo_indptr=None if buffers is None else buffers.qo_indptr,
            kv_indptr=None if buffers is None else buffers.kv_indptr,
            kv_indices=None if buffers is None else buffers.kv_indices,
            kv_len_arr=None if buffers is None else buffers.kv_len,
            backend=paged_backend(self._capability, plan.head_dim_ckv),
        )

    def _check_shape(self, plan: PagedPlan) -> None:
        if plan.head_dim_ckv % 128 or plan.head_dim_kpe % 64:
            raise ValueError(
                f"head_dim_ckv={plan.head_dim_ckv}, head_dim_kpe={plan.head_dim_kpe}: FlashInfer's "
                f"paged MLA needs multiples of 128 and 64; use TorchMLABackend"
            )
        if plan.q_dtype not in (torch.bfloat16, torch.float16):
            raise ValueError(
                f"q_dtype={plan.q_dtype}: FlashInfer's paged MLA needs bfloat16 or float16"
            )
        if plan.kv_dtype == plan.q_dtype:
            return
        if plan.kv_dtype != torch.float8_e4m3fn or plan.q_dtype != torch.bfloat16:
            raise ValueError(
                f"kv_dtype={plan.kv_dtype} with q_dtype={plan.q_dtype}: FlashInfer's paged MLA "
                f"reads a cache of the queries' dtype, or e4m3 with bfloat16 queries"
            )
        if self._capability != (9, 0):
            raise KernelUnavailableError(
                "an e4m3 cache through FlashInfer's paged MLA needs SM90; use TRTLLMMLABackend on "
                "SM100, a bfloat16 cache elsewhere"
            )


def _with_heads(q: torch.Tensor, heads: int) -> torch.Tensor:
    padded = q.new_zeros(q.shape[0], heads, q.shape[2])
    padded[:, : q.shape[1]] = q
    return padded
