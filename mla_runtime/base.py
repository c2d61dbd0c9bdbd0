"""The hooks that an engine calls on whichever attention backend is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from mla_guard import guard, hook
from mla_runtime.attention_form import AttentionForm
from mla_runtime.contracts import plans_every_extend_token
from mla_runtime.kernels.softmax import merge_state
from mla_runtime.phase import Phase, phase_of

if TYPE_CHECKING:
    from mla_runtime.protocols import (
        ForwardBatchLike,
        KvPoolLike,
        LayerLike,
        ReqToTokenPoolLike,
    )

__all__ = ["AttentionBackend"]

Output = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


@guard(
    flags={
        "needs_cpu_seq_lens": "any",
        "supports_cuda_graph": "all",
        "data_type": "same",
        "max_context_len": "same",
        "req_to_token_pool": "same",
        "token_to_kv_pool": "same",
    }
)
class AttentionBackend:
    """Base of every backend; hooks per SGLang 0.5.23, ``layers/attention/base_attn_backend.py``.

    Per step an engine calls ``init_forward_metadata`` (eager), or
    ``init_forward_metadata_out_graph`` before a capture or replay and
    ``init_forward_metadata_in_graph`` inside the capture; then ``forward`` once per layer.
    """

    needs_cpu_seq_lens: bool = True
    """Whether the backend reads ``seq_lens_cpu``; an engine may skip the mirror otherwise."""
    supports_cuda_graph: bool = False
    """Whether the backend's decode, verify and draft passes can be captured as CUDA graphs."""
    data_type: torch.dtype | None = None
    """dtype of the KV cache; None, like the next three, for a backend that reads none."""
    max_context_len: int | None = None
    """Tokens of the longest request."""
    req_to_token_pool: ReqToTokenPoolLike | None = None
    token_to_kv_pool: KvPoolLike | None = None

    @hook(phase="prefill", ensures=plans_every_extend_token)
    def init_forward_metadata(self, forward_batch: ForwardBatchLike) -> None:
        """Plan one eager pass."""
        self.init_forward_metadata_out_graph(forward_batch)
        self.init_forward_metadata_in_graph(forward_batch)

    @hook(phase="capture", after="init_cuda_graph_state")
    def init_forward_metadata_out_graph(
        self, forward_batch: ForwardBatchLike, in_capture: bool = False
    ) -> None:
        """Plan before a capture (``in_capture``) or before a replay of the captured graph."""

    def init_forward_metadata_in_graph(self, forward_batch: ForwardBatchLike) -> None:
        """Device work that the graph records: static shapes, no host read."""

    @hook(optional=True)
    def init_cuda_graph_state(
        self, max_bs: int, max_num_tokens: int, kv_indices_buf: torch.Tensor | None = None
    ) -> None:
        """Allocate, once, what every captured graph shares."""
        raise NotImplementedError(f"{type(self).__name__} does not serve CUDA graphs")

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """The KV length of a padding row: 1, the sink slot, so that no row is empty."""
        return 1

    @hook(optional=True, optional_arguments="disable_flashinfer_ragged")
    def init_mha_chunk_metadata(
        self, forward_batch: ForwardBatchLike, disable_flashinfer_ragged: bool = False
    ) -> None:
        """Plan the multi-head form over a cached prefix, once per batch, after the pass's plan.

        ``disable_flashinfer_ragged`` leaves the plan for the new tokens alone.
        """
        raise NotImplementedError(f"{type(self).__name__} does not attend a prefix in chunks")

    def preferred_form(self, forward_batch: ForwardBatchLike) -> AttentionForm:
        """The form in which this backend computes the batch fastest; absorbed serves all."""
        return AttentionForm.MLA

    def merge_state(
        self,
        out_a: torch.Tensor,
        lse_a: torch.Tensor,
        out_b: torch.Tensor,
        lse_b: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Two attention states of disjoint keys as one: ``out[T, H, D]``, natural ``lse[T, H]``."""
        return merge_state(out_a, lse_a, out_b, lse_b)

    def update_mamba_state_after_mtp_verify(
        self,
        last_correct_step_indices: torch.Tensor,
        mamba_track_indices: torch.Tensor | None = None,
        mamba_steps_to_track: torch.Tensor | None = None,
        model: object = None,
        req_pool_indices: torch.Tensor | None = None,
    ) -> None:
        """Set every recurrent state to what it was after the last accepted token of a verify.

        ``last_correct_step_indices[B]``: that token's place among the request's draft tokens. A
        backend that keeps no state per request has none to set. Per SGLang 0.5.23,
        ``layers/attention/hybrid_linear_attn_backend.py``, where ``mamba_track_indices[B]`` and
        ``mamba_steps_to_track[B]`` name state slots that keep a copy of a step, negative for none.
        """

    def _planned_query_tokens(self) -> int | None:
        """Query tokens of the prefill that is planned; None where a backend plans by request."""
        return None

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: LayerLike,
        forward_batch: ForwardBatchLike,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> Output:
        """Attend in one layer: ``[T, H * v_head_dim]``, or that with its LSE where asked.

        ``q[T, H * head_dim]``, or its nope part with ``q_rope``; likewise ``k`` and ``k_rope``.
        """
        phase = phase_of(forward_batch.forward_mode)
        if phase is Phase.IDLE:
            return q.new_empty(q.shape[0], layer.tp_q_head_num * layer.v_head_dim)
        if phase is Phase.DECODE:
            return self.forward_decode(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)
        return self.forward_extend(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)

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
        """One query token per request over the paged cache, after writing its ``k``."""
        raise NotImplementedError(f"{type(self).__name__} does not decode")

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
        """Several query tokens per request: prefill, target verify, draft extend."""
        raise NotImplementedError(f"{type(self).__name__} does not extend")
