"""Multi-head attention over a prefix that is expanded chunk by chunk, or in one shot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mla_runtime.indices import indptr_of
from mla_runtime.kernels.protocol import RaggedPlan

if TYPE_CHECKING:
    from mla_runtime.base import Output
    from mla_runtime.flashinfer_mla import FlashInferMLAAttnBackend
    from mla_runtime.kernels.protocol import RaggedAttention
    from mla_runtime.protocols import ForwardBatchLike, LayerLike, ModelRunnerLike

__all__ = ["FlashInferMhaChunkKVRunner", "run_ragged"]


class FlashInferMhaChunkKVRunner:
    """One ragged kernel per prefix chunk, and the backend's own for the new tokens."""

    def __init__(
        self, model_runner: ModelRunnerLike, attn_backend: FlashInferMLAAttnBackend
    ) -> None:
        self.shape = attn_backend.shape
        self.device = attn_backend.device
        self.kernels = attn_backend.kernels
        self.enable_chunk_kv = attn_backend.enable_chunk_kv
        self.ragged_wrapper = attn_backend.prefill_wrapper_ragged
        self.chunk_ragged_wrappers: list[RaggedAttention] = []

    def update_wrapper(
        self, forward_batch: ForwardBatchLike, disable_flashinfer_ragged: bool = False
    ) -> None:
        """Plan every chunk, and the new tokens unless ``disable_flashinfer_ragged``.

        Where the configuration disables chunks, a batch that was not cut has nothing to plan: its
        prefix is attended in the absorbed form.

        Raises:
            ValueError: chunks are enabled and the batch's prefix was not cut first.
        """
        if forward_batch.num_prefix_chunks is None and not self.enable_chunk_kv:
            return
        prefix_lens = forward_batch.extend_prefix_lens
        extend_lens_cpu = forward_batch.extend_seq_lens_cpu
        cu_seq_lens = forward_batch.prefix_chunk_cu_seq_lens
        num_chunks = forward_batch.num_prefix_chunks
        if prefix_lens is None or extend_lens_cpu is None:
            raise ValueError(
                f"a {forward_batch.forward_mode.name} batch without extend_prefix_lens and "
                f"extend_seq_lens_cpu has no prefix to attend"
            )
        if num_chunks is None or (num_chunks > 0 and cu_seq_lens is None):
            raise ValueError(
                f"num_prefix_chunks={num_chunks}, prefix_chunk_cu_seq_lens="
                f"{'unset' if cu_seq_lens is None else 'set'}: call "
                f"prepare_chunked_prefix_cache_info before init_mha_chunk_metadata"
            )
        qo_indptr = indptr_of(forward_batch.seq_lens - prefix_lens)
        qo_indptr_cpu = indptr_of(torch.tensor(extend_lens_cpu, dtype=torch.int64))
        while len(self.chunk_ragged_wrappers) < num_chunks:
            self.chunk_ragged_wrappers.append(self.kernels.ragged(self.device))
        if cu_seq_lens is not None:
            # One copy for all chunks: a copy per chunk would wait for the device each time.
            cu_seq_lens_cpu = cu_seq_lens.cpu()
            for chunk in range(num_chunks):
                self.chunk_ragged_wrappers[chunk].plan(
                    self._plan(
                        qo_indptr,
                        cu_seq_lens[chunk],
                        qo_indptr_cpu,
                        cu_seq_lens_cpu[chunk],
                        causal=False,
                    )
                )
        if disable_flashinfer_ragged:
            return
        kv_indptr, kv_indptr_cpu = qo_indptr, qo_indptr_cpu
        if forward_batch.mha_one_shot:
            kv_indptr = indptr_of(forward_batch.seq_lens)
            kv_indptr_cpu = (
                kv_indptr.cpu()
                if forward_batch.seq_lens_cpu is None
                else indptr_of(forward_batch.seq_lens_cpu)
            )
        self.ragged_wrapper.plan(
            self._plan(qo_indptr, kv_indptr, qo_indptr_cpu, kv_indptr_cpu, causal=True)
        )

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: LayerLike,
        forward_batch: ForwardBatchLike,
    ) -> Output:
        """The current chunk with its LSE, or the new tokens, with theirs where asked.

        Raises:
            ValueError: the chunk's index was not planned.
        """
        if not forward_batch.attn_attend_prefix_cache:
            return run_ragged(
                self.ragged_wrapper, q, k, v, layer, return_lse=bool(forward_batch.mha_return_lse)
            )
        chunk = forward_batch.prefix_chunk_idx
        if chunk is None or not 0 <= chunk < len(self.chunk_ragged_wrappers):
            raise ValueError(
                f"prefix_chunk_idx={chunk}; expected one of the "
                f"{len(self.chunk_ragged_wrappers)} planned chunks"
            )
        return run_ragged(self.chunk_ragged_wrappers[chunk], q, k, v, layer, return_lse=True)

    def _plan(
        self,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        qo_indptr_cpu: torch.Tensor,
        kv_indptr_cpu: torch.Tensor,
        *,
        causal: bool,
    ) -> RaggedPlan:
        return RaggedPlan(
            qo_indptr=qo_indptr,
            kv_indptr=kv_indptr,
            num_qo_heads=self.shape.num_heads,
            num_kv_heads=self.shape.num_heads,
            head_dim_qk=self.shape.head_dim_qk,
            head_dim_vo=self.shape.v_head_dim,
            causal=causal,
            sm_scale=self.shape.scaling,
            q_dtype=self.shape.q_dtype,
            qo_indptr_cpu=qo_indptr_cpu,
            kv_indptr_cpu=kv_indptr_cpu,
        )


def run_ragged(
    kernel: RaggedAttention,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    layer: LayerLike,
    *,
    return_lse: bool,
) -> Output:
    """``[T, H * v]``, or with the LSE ``([T, H, v], [T, H])``, natural."""
    out, lse = kernel.run(
        q.view(-1, layer.tp_q_head_num, layer.head_dim),
        k.view(-1, layer.tp_k_head_num, layer.head_dim).to(q.dtype),
        v.view(-1, layer.tp_v_head_num, layer.v_head_dim).to(q.dtype),
        return_lse=return_lse,
    )
    if lse is None:
        return out.view(-1, layer.tp_q_head_num * layer.v_head_dim)
    return out, lse
