"""MLA over planned kernels: paged absorbed, ragged, and a prefix in chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mla_guard import hook
from mla_runtime.attention_form import AttentionForm, planned_form
from mla_runtime.base import AttentionBackend
from mla_runtime.captured_graphs import CapturedGraphs
from mla_runtime.captured_prefill import in_captured_prefill
from mla_runtime.chunk_runner import FlashInferMhaChunkKVRunner, run_ragged
from mla_runtime.context_parallel import dcp_group_of, gather_heads, own_state
from mla_runtime.errors import HookRefusedError, refusal
from mla_runtime.head_exchange import HeadExchange
from mla_runtime.indices_updater import (
    FlashInferMLAIndicesUpdaterDecode,
    FlashInferMLAIndicesUpdaterPrefill,
    planned_page_size,
)
from mla_runtime.kernels.protocol import GraphBuffers
from mla_runtime.kernels.select import planned_kernels
from mla_runtime.kv_shard import KvShard
from mla_runtime.layer_inputs import (
    check_layer,
    expanded_heads,
    latent_query,
    pool_scale,
    write_kv,
)
from mla_runtime.lengths import BatchLengths, lengths_of
from mla_runtime.phase import Phase, phase_of
from mla_runtime.settings import EngineSettings, MlaShape

if TYPE_CHECKING:
    from mla_runtime.base import Output
    from mla_runtime.head_exchange import GatheredHeads
    from mla_runtime.kernels.partial_states import State
    from mla_runtime.kernels.protocol import PagedMla, PlannedKernels
    from mla_runtime.protocols import (
        ForwardBatchLike,
        KvPoolLike,
        LayerLike,
        ModelRunnerLike,
        ReqToTokenPoolLike,
    )

__all__ = ["DecodeMetadata", "FlashInferMLAAttnBackend", "PrefillMetadata"]


@dataclass(frozen=True, slots=True)
class DecodeMetadata:
    """The planned kernel of a decode pass over ``batch_size`` requests."""

    decode_wrapper: PagedMla
    batch_size: int


@dataclass(frozen=True, slots=True)
class PrefillMetadata:
    """The planned kernel of an extend pass; ``use_ragged`` where no request has a prefix."""

    prefill_wrapper: PagedMla
    use_ragged: bool
    batch_size: int
    new_tokens: PagedMla | None = None
    """Plans the pass's own tokens where the cache is sharded, and ``prefill_wrapper`` the rest."""


class FlashInferMLAAttnBackend(AttentionBackend):
    """The MLA backend over FlashInfer's kernels on a GPU, over the torch reference elsewhere.

    Hooks and attributes per SGLang 0.5.23, ``layers/attention/flashinfer_mla_backend.py``. Every
    attribute exists whatever the flags; kernels allocate on their first plan. ``skip_prefill``
    (a step of a multi-step draft) takes the extend hooks out of service: they refuse by name.
    """

    needs_cpu_seq_lens: bool = True
    supports_cuda_graph: bool = True
    data_type: torch.dtype
    max_context_len: int
    req_to_token_pool: ReqToTokenPoolLike
    token_to_kv_pool: KvPoolLike

    def __init__(
        self,
        model_runner: ModelRunnerLike,
        skip_prefill: bool = False,
        kv_indptr_buf: torch.Tensor | None = None,
        q_indptr_decode_buf: torch.Tensor | None = None,
        *,
        kernels: PlannedKernels | None = None,
    ) -> None:
        """A backend for one runner.

        ``kv_indptr_buf`` and ``q_indptr_decode_buf``, int32 ``[requests + 1]``, let the steps of a
        multi-step draft share their buffers. ``kernels`` replaces the choice by device.
        """
        super().__init__()
        self.device = torch.device(model_runner.device)
        self.shape = MlaShape.of(model_runner)
        self.settings = EngineSettings.of(model_runner)
        self.skip_prefill = skip_prefill
        self.enable_chunk_kv = self.settings.enable_chunk_kv and not skip_prefill
        self.max_context_len = self.shape.context_len
        self.page_size = self.shape.page_size
        self.data_type = self.shape.kv_dtype
        self.q_data_type = self.shape.q_dtype
        self.req_to_token_pool = model_runner.req_to_token_pool
        self.token_to_kv_pool = model_runner.token_to_kv_pool
        group = dcp_group_of(model_runner)
        self.shard = KvShard.of(group)
        self.planned_page_size = planned_page_size(self.shape, self.shard)
        self.exchange = (
            None if group is None else HeadExchange(group, self.settings.dcp_comm_backend)
        )
        self.kernels = planned_kernels(self.device) if kernels is None else kernels

        max_bs = model_runner.req_to_token_pool.size
        self.kv_indptr = self._indptr(max_bs) if kv_indptr_buf is None else kv_indptr_buf
        self.qo_indptr = self._indptr(max_bs)
        self.q_indptr_decode = (
            torch.arange(max_bs + 1, dtype=torch.int32, device=self.device)
            if q_indptr_decode_buf is None
            else q_indptr_decode_buf
        )
        self.decode_wrapper = self.kernels.paged_mla(self.device)
        self.prefill_wrapper_paged = self.kernels.paged_mla(self.device)
        self.prefill_wrapper_verify = self.kernels.paged_mla(self.device)
        self.prefill_wrapper_ragged = self.kernels.ragged(self.device)
        self.prefill_wrapper_new_tokens = self.kernels.paged_mla(self.device)
        self.indices_updater_decode = FlashInferMLAIndicesUpdaterDecode(model_runner, self)
        self.indices_updater_prefill = FlashInferMLAIndicesUpdaterPrefill(model_runner, self)
        self.mha_chunk_kv_cache = FlashInferMhaChunkKVRunner(model_runner, self)

        self.forward_metadata: DecodeMetadata | PrefillMetadata | None = None
        self.captured_planners: CapturedGraphs[PagedMla] = CapturedGraphs()
        self.captured_new_tokens: CapturedGraphs[PagedMla] = CapturedGraphs()
        self.cuda_graph_kv_indices: torch.Tensor | None = None
        self.cuda_graph_buffers: GraphBuffers | None = None

    def _indptr(self, max_bs: int) -> torch.Tensor:
        return torch.zeros(max_bs + 1, dtype=torch.int32, device=self.device)

    @hook(
        phase=("prefill", "verify", "draft_extend"),
        requires=("prefill_wrapper_paged", "prefill_wrapper_ragged", "indices_updater_prefill"),
        assumes="not self.skip_prefill",
    )
    def init_forward_metadata(self, forward_batch: ForwardBatchLike) -> None:
        """Plan one eager pass.

        Afterwards the planned kernel's ``qo_indptr[-1]`` is the number of query tokens of the
        batch; a batch without requests plans nothing.

        Raises:
            HookRefusedError: an extend, verify or draft-extend batch with ``skip_prefill``.
        """
        phase = phase_of(forward_batch.forward_mode)
        self._refuse_prefill_if_skipped(phase, "init_forward_metadata")
        if forward_batch.batch_size == 0:
            self.forward_metadata = None
            return
        lengths = lengths_of(forward_batch, phase, self.settings)
        if phase in (Phase.DECODE, Phase.IDLE):
            self._plan_decode(forward_batch, lengths, self.decode_wrapper)
            self.forward_metadata = DecodeMetadata(self.decode_wrapper, forward_batch.batch_size)
            return
        use_ragged = (
            phase is Phase.EXTEND
            and not self.settings.flashinfer_mla_disable_ragged
            and not lengths.has_prefix
            and not in_captured_prefill()
        )
        wrapper = (
            self.prefill_wrapper_verify
            if phase is Phase.TARGET_VERIFY
            else self.prefill_wrapper_paged
        )
        self._plan_prefill(forward_batch, lengths, wrapper, use_ragged)
        new_tokens = None
        if self.exchange is not None and not use_ragged:
            new_tokens = self.prefill_wrapper_new_tokens
            self.indices_updater_prefill.update_new_tokens(new_tokens, lengths)
        self.forward_metadata = PrefillMetadata(
            wrapper, use_ragged, forward_batch.batch_size, new_tokens
        )

    def init_cuda_graph_state(
        self, max_bs: int, max_num_tokens: int, kv_indices_buf: torch.Tensor | None = None
    ) -> None:
        """Say how large captured batches get, once; the index buffers come with the first capture.

        ``kv_indices_buf``, int32, replaces the buffer of indices of ``max_bs`` longest requests.
        """
        self.captured_planners.reserve(max_bs)
        self.captured_new_tokens.reserve(max_bs)
        self.cuda_graph_kv_indices = kv_indices_buf
        self.cuda_graph_buffers = None

    def _graph_buffers(self) -> GraphBuffers:
        """What every graph of planned kernels reads: not there before one is captured."""
        if self.cuda_graph_buffers is None:
            max_bs = self.captured_planners.max_bs
            if self.cuda_graph_kv_indices is None:
                pages = -(-self.shard.lens(self.max_context_len) // self.planned_page_size)
                self.cuda_graph_kv_indices = torch.zeros(
                    max_bs * pages,
                    dtype=torch.int32,
                    device=self.device,
                )
            self.cuda_graph_buffers = GraphBuffers(
                qo_indptr=torch.arange(max_bs + 1, dtype=torch.int32, device=self.device),
                kv_indptr=self._indptr(max_bs),
                kv_indices=self.cuda_graph_kv_indices,
                kv_len=torch.ones(max_bs, dtype=torch.int32, device=self.device),
            )
        return self.cuda_graph_buffers

    def init_forward_metadata_out_graph(
        self, forward_batch: ForwardBatchLike, in_capture: bool = False
    ) -> None:
        """Plan a captured decode, target verify or draft extend for its capture or next replay.

        A capture creates the graph's planner for the batch size, a replay plans the same one, from
        ``seq_lens_cpu`` alone, without reading the device.

        Raises:
            HookRefusedError: another phase, a replay without capture or without ``seq_lens_cpu``,
                or no ``init_cuda_graph_state`` before.
        """
        phase = phase_of(forward_batch.forward_mode)
        hook = "init_forward_metadata_out_graph"
        self._refuse_prefill_if_skipped(phase, hook)
        if phase is Phase.EXTEND:
            raise refusal(
                self,
                hook,
                f"{forward_batch.forward_mode.name} is not captured as one graph",
                "call init_forward_metadata inside captured_prefill()",
            )
        if not in_capture and forward_batch.seq_lens_cpu is None:
            raise refusal(
                self,
                hook,
                "a replay without seq_lens_cpu would wait for the device",
                "keep the host mirror (needs_cpu_seq_lens is True)",
            )
        batch_size = forward_batch.batch_size
        wrapper = self.captured_planners.find(
            self, phase, batch_size, in_capture, lambda: self._graph_planner(batch_size)
        )
        lengths = lengths_of(forward_batch, phase, self.settings, in_graph=True)
        kv_indices = self._graph_buffers().kv_indices
        if phase in (Phase.DECODE, Phase.IDLE):
            self._plan_decode(forward_batch, lengths, wrapper, kv_indices)
            self.forward_metadata = DecodeMetadata(wrapper, batch_size)
        else:
            new_tokens = self._captured_new_tokens(phase, lengths, in_capture)
            self._plan_prefill(forward_batch, lengths, wrapper, False, kv_indices)
            self.forward_metadata = PrefillMetadata(wrapper, False, batch_size, new_tokens)

    def _captured_new_tokens(
        self, phase: Phase, lengths: BatchLengths, in_capture: bool
    ) -> PagedMla | None:
        """The graph's planner of the pass's own tokens; None where the cache is whole.

        It is planned once: their number does not change between replays.
        """
        if self.exchange is None:
            return None
        batch_size, total = lengths.q_cpu.shape[0], int(lengths.q_cpu.sum())

        def make() -> PagedMla:
            buffers = GraphBuffers(
                qo_indptr=self._indptr(batch_size),
                kv_indptr=self._indptr(batch_size),
                kv_indices=torch.zeros(total, dtype=torch.int32, device=self.device),
                kv_len=torch.zeros(batch_size, dtype=torch.int32, device=self.device),
            )
            made = self.kernels.paged_mla(self.device, buffers)
            self.indices_updater_prefill.update_new_tokens(made, lengths)
            return made

        return self.captured_new_tokens.find(self, phase, batch_size, in_capture, make)

    def _graph_planner(self, batch_size: int) -> PagedMla:
        shared = self._graph_buffers()
        own = GraphBuffers(
            shared.qo_indptr[: batch_size + 1],
            shared.kv_indptr[: batch_size + 1],
            shared.kv_indices,
            shared.kv_len[:batch_size],
        )
        return self.kernels.paged_mla(self.device, own)

    @hook(
        requires=("mha_chunk_kv_cache", "prefill_wrapper_ragged"),
        assumes="not self.skip_prefill",
    )
    def init_mha_chunk_metadata(
        self, forward_batch: ForwardBatchLike, disable_flashinfer_ragged: bool = False
    ) -> None:
        """Plan the multi-head form over the batch's prefix chunks and its new tokens.

        Where the configuration disables chunks and none were cut, only the new tokens are planned.

        Raises:
            HookRefusedError: ``skip_prefill`` is set.
            ValueError: chunks are enabled and the batch was not cut.
        """
        self._refuse_prefill_if_skipped(Phase.EXTEND, "init_mha_chunk_metadata")
        self.mha_chunk_kv_cache.update_wrapper(forward_batch, disable_flashinfer_ragged)

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
    ) -> Output:
        """Prefill in the multi-head form where it was planned so, else in the absorbed form.

        Returns ``[T, H * v_head_dim]``; over a prefix chunk or with ``mha_return_lse``
        ``([T, H, v_head_dim], lse[T, H])``.
        """
        self._refuse_prefill_if_skipped(phase_of(forward_batch.forward_mode), "forward_extend")
        if save_kv_cache:
            write_kv(self.token_to_kv_pool, layer, forward_batch, self.shape, k, k_rope)
        if q.shape[0] == 0:
            return q.new_empty(0, layer.tp_q_head_num * layer.v_head_dim)
        if forward_batch.attn_attend_prefix_cache is not None and any(
            forward_batch.extend_prefix_lens_cpu or ()
        ):
            return self.mha_chunk_kv_cache.forward(
                *expanded_heads(q, k, v, q_rope, k_rope, layer, self.shape), layer, forward_batch
            )
        metadata = self._metadata(forward_batch, "forward_extend")
        if not isinstance(metadata, PrefillMetadata):
            raise self._unplanned(forward_batch, "forward_extend")
        if metadata.use_ragged:
            return run_ragged(
                self.prefill_wrapper_ragged,
                *expanded_heads(q, k, v, q_rope, k_rope, layer, self.shape),
                layer,
                return_lse=bool(forward_batch.mha_return_lse),
            )
        heads = gather_heads(self.exchange, q, q_rope, layer, self.shape)
        own = own_state(
            metadata.new_tokens, q, q_rope, k, k_rope, layer, self.token_to_kv_pool, self.shape
        )
        return self._run_paged(metadata.prefill_wrapper, q, q_rope, layer, heads, own)

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
    ) -> Output:
        """Absorbed attention of one token per request; returns ``[B, H * kv_lora_rank]``."""
        heads = gather_heads(self.exchange, q, q_rope, layer, self.shape)
        if save_kv_cache:
            write_kv(self.token_to_kv_pool, layer, forward_batch, self.shape, k, k_rope)
        if q.shape[0] == 0:
            return q.new_empty(0, layer.tp_q_head_num * layer.v_head_dim)
        metadata = self._metadata(forward_batch, "forward_decode")
        if not isinstance(metadata, DecodeMetadata):
            raise self._unplanned(forward_batch, "forward_decode")
        return self._run_paged(metadata.decode_wrapper, q, q_rope, layer, heads)

    def _run_paged(
        self,
        wrapper: PagedMla,
        q: torch.Tensor,
        q_rope: torch.Tensor | None,
        layer: LayerLike,
        heads: GatheredHeads | None,
        own: State | None = None,
    ) -> torch.Tensor:
        check_layer(layer, self.shape)
        q_nope, q_pe = latent_query(q, q_rope, layer, self.shape) if heads is None else heads.wait()
        partial = None if self.exchange is None else self.exchange.partial(q_nope)
        rows = self.token_to_kv_pool.get_key_buffer(layer.layer_id)
        ckv, kpe = torch.split_with_sizes(
            rows.view(-1, self.planned_page_size, self.shape.kv_cache_dim),
            (self.shape.kv_lora_rank, self.shape.qk_rope_head_dim),
            dim=-1,
        )
        out, _ = wrapper.run(
            q_nope,
            q_pe,
            ckv,
            kpe,
            kv_scale=pool_scale(self.token_to_kv_pool, layer),
            into=None if partial is None else (partial.out, partial.lse),
        )
        if self.exchange is not None and partial is not None:
            out = self.exchange.combine(partial, own)
        return out.view(-1, layer.tp_q_head_num * layer.v_head_dim)

    def _metadata(
        self, forward_batch: ForwardBatchLike, hook: str
    ) -> DecodeMetadata | PrefillMetadata:
        metadata = self.forward_metadata
        if metadata is None:
            raise self._unplanned(forward_batch, hook)
        if metadata.batch_size < forward_batch.batch_size:
            # Data-parallel padding grew the batch after it was planned.
            self.init_forward_metadata(forward_batch)
            metadata = self.forward_metadata
            assert metadata is not None
        return metadata

    def _planned_query_tokens(self) -> int | None:
        metadata = self.forward_metadata
        if not isinstance(metadata, PrefillMetadata):
            return None
        return int(self.qo_indptr[metadata.batch_size])

    def merge_state(
        self,
        out_a: torch.Tensor,
        lse_a: torch.Tensor,
        out_b: torch.Tensor,
        lse_b: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.kernels.merge_state(out_a, lse_a, out_b, lse_b)

    def preferred_form(self, forward_batch: ForwardBatchLike) -> AttentionForm:
        """Multi-head without a prefix and with a long one; absorbed between."""
        if phase_of(forward_batch.forward_mode) is not Phase.EXTEND or in_captured_prefill():
            return AttentionForm.MLA
        return planned_form(
            sum(forward_batch.extend_prefix_lens_cpu or ()),
            sum(forward_batch.extend_seq_lens_cpu or ()),
            self.settings,
        )

    def _unplanned(self, forward_batch: ForwardBatchLike, hook: str) -> HookRefusedError:
        planned = type(self.forward_metadata).__name__ if self.forward_metadata else "nothing"
        return refusal(
            self,
            hook,
            f"{planned} is planned for a {forward_batch.forward_mode.name} batch",
            "call init_forward_metadata with this batch first",
        )

    def _plan_decode(
        self,
        forward_batch: ForwardBatchLike,
        lengths: BatchLengths,
        wrapper: PagedMla,
        kv_indices_buf: torch.Tensor | None = None,
    ) -> None:
        self.indices_updater_decode.update(
            forward_batch.req_pool_indices, lengths.kv, lengths.kv_cpu, wrapper, kv_indices_buf
        )

    def _plan_prefill(
        self,
        forward_batch: ForwardBatchLike,
        lengths: BatchLengths,
        wrapper: PagedMla,
        use_ragged: bool,
        kv_indices_buf: torch.Tensor | None = None,
    ) -> None:
        self.indices_updater_prefill.update(
            forward_batch.req_pool_indices,
            lengths.kv,
            lengths.kv_cpu,
            lengths.prefix,
            lengths.prefix_cpu,
            wrapper,
            use_ragged,
            kv_indices_buf,
        )

    def _refuse_prefill_if_skipped(self, phase: Phase, hook: str) -> None:
        if self.skip_prefill and phase not in (Phase.DECODE, Phase.IDLE):
            raise refusal(
                self,
                hook,
                f"skip_prefill=True takes {phase.value} out of service",
                "call the draft runner's own backend, built with skip_prefill=False",
            )
