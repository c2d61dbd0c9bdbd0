"""MLA over the TRT-LLM family: block tables for decode, stateless ragged prefill."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mla_guard import hook
from mla_runtime.attention_form import AttentionForm
from mla_runtime.block_metadata import (
    TRTLLMMLADecodeMetadata,
    TRTLLMMLAPrefillMetadata,
    decode_metadata,
    padded_blocks,
    prefill_keys,
    prefill_metadata,
)
from mla_runtime.captured_graphs import CapturedGraphs
from mla_runtime.captured_prefill import in_captured_prefill
from mla_runtime.flashinfer_mla import FlashInferMLAAttnBackend
from mla_runtime.indices import block_table
from mla_runtime.kernels.checks import one_scale
from mla_runtime.kernels.select import block_kernels
from mla_runtime.layer_inputs import (
    check_layer,
    expanded_heads,
    latent_query,
    pool_scale,
    to_cache_dtype,
    write_kv,
)
from mla_runtime.lengths import captured_draft_tokens
from mla_runtime.padded_queries import pad_queries, unpad_outputs
from mla_runtime.phase import Phase, phase_of
from mla_runtime.rope import rotate_parts

if TYPE_CHECKING:
    from mla_runtime.base import Output
    from mla_runtime.kernels.protocol import BlockKernels, PlannedKernels
    from mla_runtime.protocols import ForwardBatchLike, LayerLike, ModelRunnerLike

__all__ = ["TRTLLMMLABackend", "TRTLLMMLADecodeMetadata", "TRTLLMMLAPrefillMetadata"]


class TRTLLMMLABackend(FlashInferMLAAttnBackend):
    """The MLA backend over TRT-LLM's kernels on SM100, over the torch reference elsewhere.

    Hooks per SGLang 0.5.23, ``layers/attention/trtllm_mla_backend.py``. Every wrapper of the
    parent is there and serves what this family does not: the absorbed form over a prefix that is
    not expanded, because chunks are disabled or the prefill is captured.
    """

    needs_cpu_seq_lens: bool = False
    page_sizes: tuple[int, ...] = (32, 64)
    """Page sizes of the pool that the decode kernel reads."""
    fp8_only: bool = False
    """Whether the kernels read no other cache than e4m3."""

    def __init__(
        self,
        model_runner: ModelRunnerLike,
        skip_prefill: bool = False,
        kv_indptr_buf: torch.Tensor | None = None,
        q_indptr_decode_buf: torch.Tensor | None = None,
        backend: str = "trtllm-gen",
        *,
        kernels: PlannedKernels | None = None,
        decode_kernels: BlockKernels | None = None,
    ) -> None:
        """A backend for one runner; ``backend`` names the library of the block-table kernels.

        Raises:
            ValueError: a page size or cache dtype that the kernels do not read.
        """
        super().__init__(
            model_runner, skip_prefill, kv_indptr_buf, q_indptr_decode_buf, kernels=kernels
        )
        if self.exchange is not None:
            raise ValueError(
                f"{type(self).__name__} reads a whole cache; dcp_group shards it over "
                f"{self.shard.world} ranks. Use FlashInferMLAAttnBackend or TorchMLABackend"
            )
        if self.page_size not in self.page_sizes:
            raise ValueError(
                f"{type(self).__name__} needs page_size in {list(self.page_sizes)}, got "
                f"page_size={self.page_size}"
            )
        if self.fp8_only and self.data_type != torch.float8_e4m3fn:
            raise ValueError(
                f"{type(self).__name__} needs kv_cache_dtype torch.float8_e4m3fn, got "
                f"{self.data_type}"
            )
        self.backend = backend
        self.block_kernels = (
            block_kernels(self.device, backend) if decode_kernels is None else decode_kernels
        )
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.forward_prefill_metadata: TRTLLMMLAPrefillMetadata | None = None
        self.forward_decode_metadata: TRTLLMMLADecodeMetadata | None = None
        self.captured_blocks: CapturedGraphs[TRTLLMMLADecodeMetadata] = CapturedGraphs()
        self.decode_cuda_graph_kv_indices: torch.Tensor | None = None

    @hook(
        phase=("prefill", "verify", "draft_extend"),
        requires=("prefill_wrapper_paged", "prefill_wrapper_ragged", "indices_updater_prefill"),
        assumes="not self.skip_prefill",
    )
    def init_forward_metadata(self, forward_batch: ForwardBatchLike) -> None:
        """Plan one eager pass: a block table, or the lengths of a ragged prefill.

        Raises:
            HookRefusedError: an extend, verify or draft-extend batch with ``skip_prefill``.
        """
        phase = phase_of(forward_batch.forward_mode)
        self._refuse_prefill_if_skipped(phase, "init_forward_metadata")
        self.forward_metadata = None
        self.forward_prefill_metadata = None
        self.forward_decode_metadata = None
        if forward_batch.batch_size == 0:
            return
        if phase is not Phase.EXTEND:
            self.forward_decode_metadata = decode_metadata(
                forward_batch, phase, self.settings, self.shape, self.req_to_token
            )
            return
        fallback = self._falls_back(forward_batch)
        if fallback:
            super().init_forward_metadata(forward_batch)
        self.forward_prefill_metadata = prefill_metadata(forward_batch, self.settings, fallback)

    def _falls_back(self, forward_batch: ForwardBatchLike) -> bool:
        """Whether the parent serves a prefill: prefix not expanded, or the pass is captured."""
        has_prefix = any(forward_batch.extend_prefix_lens_cpu or ())
        return (has_prefix and not self.enable_chunk_kv) or in_captured_prefill()

    def preferred_form(self, forward_batch: ForwardBatchLike) -> AttentionForm:
        """Multi-head for every prefill, its prefix in chunks; absorbed where the parent serves."""
        if phase_of(forward_batch.forward_mode) is not Phase.EXTEND or self._falls_back(
            forward_batch
        ):
            return AttentionForm.MLA
        return AttentionForm.MHA_CHUNKED_KV

    def init_cuda_graph_state(
        self, max_bs: int, max_num_tokens: int, kv_indices_buf: torch.Tensor | None = None
    ) -> None:
        """Allocate the block table that all graphs of this backend read."""
        super().init_cuda_graph_state(max_bs, max_num_tokens, kv_indices_buf)
        self.captured_blocks.reserve(max_bs)
        draft = self.settings.speculative_num_draft_tokens or 0
        self.decode_cuda_graph_kv_indices = torch.full(
            (max_bs, padded_blocks(self.max_context_len + draft, self.page_size)),
            -1,
            dtype=torch.int32,
            device=self.device,
        )

    def init_forward_metadata_out_graph(
        self, forward_batch: ForwardBatchLike, in_capture: bool = False
    ) -> None:
        """Fill the captured block table and lengths; no host mirror is needed.

        Raises:
            HookRefusedError: a prefill, a replay without capture, or no ``init_cuda_graph_state``.
        """
        phase = phase_of(forward_batch.forward_mode)
        self._refuse_prefill_if_skipped(phase, "init_forward_metadata_out_graph")
        if phase is Phase.EXTEND:
            super().init_forward_metadata_out_graph(forward_batch, in_capture)
            return
        batch_size = forward_batch.batch_size
        metadata = self.captured_blocks.find(
            self, phase, batch_size, in_capture, lambda: self._graph_metadata(phase, batch_size)
        )
        seq_lens = forward_batch.seq_lens[:batch_size]
        if phase is Phase.TARGET_VERIFY:
            seq_lens = seq_lens + metadata.max_seq_len_q
        metadata.seq_lens_k.copy_(seq_lens)
        block_table(
            self.req_to_token,
            forward_batch.req_pool_indices[:batch_size],
            metadata.seq_lens_k,
            self.page_size,
            metadata.block_kv_indices.shape[1],
            out=metadata.block_kv_indices,
        )
        self.forward_prefill_metadata = None
        self.forward_decode_metadata = metadata

    def _graph_metadata(self, phase: Phase, batch_size: int) -> TRTLLMMLADecodeMetadata:
        table = self.decode_cuda_graph_kv_indices
        assert table is not None
        queries = captured_draft_tokens(phase, self.settings) if phase.is_speculative else 1
        # Sized for the longest context, since later replays may be longer than the capture.
        return TRTLLMMLADecodeMetadata(
            block_kv_indices=table[:batch_size],
            seq_lens_k=torch.zeros(batch_size, dtype=torch.int32, device=self.device),
            max_seq_len_k=self.max_context_len + (queries if phase.is_speculative else 0),
            max_seq_len_q=queries,
            batch_size=batch_size,
        )

    @hook(
        requires=("mha_chunk_kv_cache", "prefill_wrapper_ragged"),
        assumes="not self.skip_prefill",
    )
    def init_mha_chunk_metadata(
        self, forward_batch: ForwardBatchLike, disable_flashinfer_ragged: bool = False
    ) -> None:
        """Nothing to plan for the stateless kernels; the parent plans where it serves the prefill.

        The new tokens are then attended in the absorbed form, so that the parent's ragged kernel
        stays as it is.
        """
        self._refuse_prefill_if_skipped(Phase.EXTEND, "init_mha_chunk_metadata")
        if self._falls_back(forward_batch):
            super().init_mha_chunk_metadata(forward_batch, disable_flashinfer_ragged=True)

    def _planned_query_tokens(self) -> int | None:
        metadata = self.forward_prefill_metadata
        if metadata is None or metadata.fallback_to_flashinfer_impl:
            return super()._planned_query_tokens()
        return int(metadata.cum_seq_lens[-1])

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: LayerLike,
        forward_batch: ForwardBatchLike,
        save_kv_cache: bool = True,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        cos_sin_cache: torch.Tensor | None = None,
        is_neox: bool | None = False,
        llama_4_scaling: torch.Tensor | None = None,
    ) -> Output:
        """Absorbed attention of one token per request; returns ``[B, H * kv_lora_rank]``.

        With ``cos_sin_cache`` the rope parts come unrotated; ``llama_4_scaling`` multiplies the
        query.
        """
        q_rope, k_rope = rotate_parts(
            q_rope, k_rope, forward_batch.positions, cos_sin_cache, bool(is_neox)
        )
        if save_kv_cache:
            write_kv(self.token_to_kv_pool, layer, forward_batch, self.shape, k, k_rope)
        return self._run_blocks(q, q_rope, layer, forward_batch, "forward_decode", llama_4_scaling)

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: LayerLike,
        forward_batch: ForwardBatchLike,
        save_kv_cache: bool = True,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        cos_sin_cache: torch.Tensor | None = None,
        is_neox: bool | None = False,
        llama_4_scaling: torch.Tensor | None = None,
    ) -> Output:
        """Prefill, target verify or draft extend; arguments as ``forward_decode``.

        Returns ``[T, H * v_head_dim]``; over a prefix chunk or with ``mha_return_lse``
        ``([T, H, v_head_dim], lse[T, H])``.
        """
        phase = phase_of(forward_batch.forward_mode)
        self._refuse_prefill_if_skipped(phase, "forward_extend")
        q_rope, k_rope = rotate_parts(
            q_rope, k_rope, forward_batch.positions, cos_sin_cache, bool(is_neox)
        )
        metadata = self.forward_prefill_metadata
        if phase is Phase.EXTEND and metadata is not None and metadata.fallback_to_flashinfer_impl:
            q, q_rope = _scaled(q, q_rope, layer.tp_q_head_num, llama_4_scaling)
            return super().forward_extend(
                q, k, v, layer, forward_batch, save_kv_cache, q_rope, k_rope
            )
        if save_kv_cache:
            write_kv(self.token_to_kv_pool, layer, forward_batch, self.shape, k, k_rope)
        if phase.is_speculative:
            return self._run_blocks(
                q, q_rope, layer, forward_batch, "forward_extend", llama_4_scaling
            )
        if q.shape[0] == 0:
            return q.new_empty(0, layer.tp_q_head_num * layer.v_head_dim)
        if metadata is None:
            raise self._unplanned(forward_batch, "forward_extend")
        q, q_rope = _scaled(q, q_rope, layer.tp_q_head_num, llama_4_scaling)
        q, k, v = expanded_heads(q, k, v, q_rope, k_rope, layer, self.shape)
        return self._run_prefill(metadata, q, k, v, layer, forward_batch)

    def _run_prefill(
        self,
        metadata: TRTLLMMLAPrefillMetadata,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: LayerLike,
        forward_batch: ForwardBatchLike,
    ) -> Output:
        keys = prefill_keys(metadata, forward_batch)
        out, lse = self.block_kernels.prefill(
            q.view(-1, layer.tp_q_head_num, layer.head_dim),
            k.view(-1, layer.tp_k_head_num, layer.head_dim).to(q.dtype),
            v.view(-1, layer.tp_v_head_num, layer.v_head_dim).to(q.dtype),
            cum_seq_lens_q=metadata.cum_seq_lens,
            cum_seq_lens_kv=keys.cum_lens,
            seq_lens_kv=keys.lens,
            max_q_len=metadata.max_seq_len,
            max_kv_len=keys.max_len,
            causal=keys.causal,
            sm_scale=layer.scaling,
            has_empty_rows=keys.has_empty_rows,
            return_lse=not keys.causal or bool(forward_batch.mha_return_lse),
        )
        if lse is None:
            return out.view(-1, layer.tp_q_head_num * layer.v_head_dim)
        return out, lse

    def _run_blocks(
        self,
        q: torch.Tensor,
        q_rope: torch.Tensor | None,
        layer: LayerLike,
        forward_batch: ForwardBatchLike,
        hook: str,
        llama_4_scaling: torch.Tensor | None,
    ) -> torch.Tensor:
        if q.shape[0] == 0:
            return q.new_empty(0, layer.tp_q_head_num * layer.v_head_dim)
        metadata = self.forward_decode_metadata
        if metadata is not None and metadata.batch_size < forward_batch.batch_size:
            # Data-parallel padding grew the batch after it was planned.
            self.init_forward_metadata(forward_batch)
            metadata = self.forward_decode_metadata
        if metadata is None:
            raise self._unplanned(forward_batch, hook)
        check_layer(layer, self.shape)
        q, q_rope = _scaled(q, q_rope, layer.tp_q_head_num, llama_4_scaling)
        query = torch.cat(latent_query(q, q_rope, layer, self.shape), dim=-1)
        query = to_cache_dtype(query, self.data_type)
        padded = pad_queries(
            query, metadata.query_rows, metadata.batch_size, metadata.max_seq_len_q
        )
        rows = self.token_to_kv_pool.get_key_buffer(layer.layer_id)
        out, _ = self.block_kernels.decode(
            padded,
            rows.view(-1, self.page_size, self.shape.kv_cache_dim),
            metadata.block_kv_indices,
            metadata.seq_lens_k,
            metadata.max_seq_len_k,
            qk_nope_head_dim=self.shape.qk_nope_head_dim,
            kv_lora_rank=self.shape.kv_lora_rank,
            sm_scale=layer.scaling,
            kv_scale=one_scale(pool_scale(self.token_to_kv_pool, layer)),
            out_dtype=self.q_data_type,
        )
        out = unpad_outputs(out, metadata.query_rows)
        return out.reshape(-1, layer.tp_q_head_num * layer.v_head_dim)


def _scaled(
    q: torch.Tensor, q_rope: torch.Tensor | None, heads: int, factor: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The query times ``factor``, which broadcasts to ``[T, heads, dim]``."""
    if factor is None:
        return q, q_rope
    tokens = q.shape[0]
    scaled = q.view(tokens, heads, -1) * factor
    return scaled, None if q_rope is None else q_rope.view(tokens, heads, -1) * factor
