"""Layers of two kinds under one backend: full attention, and linear attention with a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from mla_guard import delegate, exposes, verify
from mla_runtime.base import AttentionBackend
from mla_runtime.phase import Phase, phase_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from mla_guard import Routes
    from mla_runtime.attention_form import AttentionForm
    from mla_runtime.base import Output
    from mla_runtime.protocols import ForwardBatchLike, LayerLike

__all__ = ["HybridLinearAttnBackend"]


class HybridLinearAttnBackend(AttentionBackend):
    """Full attention on the layers ``full_attn_layers``, linear attention on all others.

    Both children are planned for every pass but a draft extend: the layers of a draft model are
    full attention. Constructor and hooks per SGLang 0.5.23,
    ``layers/attention/hybrid_linear_attn_backend.py``; ``forward`` takes its arguments by keyword
    as well, as linear layers pass them (``mixed_qkv``, ``a``, ``b``).
    """

    __mla_routes__: ClassVar[Routes] = {
        "needs_cpu_seq_lens": {"any": ("full_attn_backend", "linear_attn_backend")},
        "supports_cuda_graph": {"all": ("full_attn_backend", "linear_attn_backend")},
        "data_type": "full_attn_backend",
        "max_context_len": "full_attn_backend",
        "req_to_token_pool": "full_attn_backend",
        "token_to_kv_pool": "full_attn_backend",
        "init_forward_metadata": ("full_attn_backend", "linear_attn_backend"),
        "init_forward_metadata_out_graph": ("full_attn_backend", "linear_attn_backend"),
        "init_forward_metadata_in_graph": ("full_attn_backend", "linear_attn_backend"),
        "init_cuda_graph_state": ("full_attn_backend", "linear_attn_backend"),
        "get_cuda_graph_seq_len_fill_value": "full_attn_backend",
        "init_mha_chunk_metadata": "full_attn_backend",
        "preferred_form": "full_attn_backend",
        "merge_state": "full_attn_backend",
        "update_mamba_state_after_mtp_verify": "linear_attn_backend",
        "forward": {"full": "full_attn_backend", "linear": "linear_attn_backend"},
        "forward_decode": {"full": "full_attn_backend", "linear": "linear_attn_backend"},
        "forward_extend": {"full": "full_attn_backend", "linear": "linear_attn_backend"},
    }

    def __init__(
        self,
        full_attn_backend: AttentionBackend,
        linear_attn_backend: AttentionBackend,
        full_attn_layers: Sequence[int],
    ) -> None:
        """Combine two backends, and verify that no hook of theirs gets lost.

        Raises:
            HookContractError: the routes and the children do not agree.
        """
        super().__init__()
        self.full_attn_backend = full_attn_backend
        self.linear_attn_backend = linear_attn_backend
        self.full_attn_layers = frozenset(full_attn_layers)
        self.needs_cpu_seq_lens = (
            full_attn_backend.needs_cpu_seq_lens or linear_attn_backend.needs_cpu_seq_lens
        )
        self.supports_cuda_graph = (
            full_attn_backend.supports_cuda_graph and linear_attn_backend.supports_cuda_graph
        )
        self.data_type = full_attn_backend.data_type
        self.max_context_len = full_attn_backend.max_context_len
        self.req_to_token_pool = full_attn_backend.req_to_token_pool
        self.token_to_kv_pool = full_attn_backend.token_to_kv_pool
        verify(self)

    def _serving(self, layer: LayerLike) -> AttentionBackend:
        full = layer.layer_id in self.full_attn_layers
        return self.full_attn_backend if full else self.linear_attn_backend

    def _planned(self, forward_batch: ForwardBatchLike) -> tuple[AttentionBackend, ...]:
        if phase_of(forward_batch.forward_mode) is Phase.DRAFT_EXTEND:
            return (self.full_attn_backend,)
        return (self.full_attn_backend, self.linear_attn_backend)

    def init_forward_metadata(self, forward_batch: ForwardBatchLike) -> None:
        for child in self._planned(forward_batch):
            child.init_forward_metadata(forward_batch)

    def init_forward_metadata_out_graph(
        self, forward_batch: ForwardBatchLike, in_capture: bool = False
    ) -> None:
        for child in self._planned(forward_batch):
            child.init_forward_metadata_out_graph(forward_batch, in_capture)

    def init_forward_metadata_in_graph(self, forward_batch: ForwardBatchLike) -> None:
        for child in self._planned(forward_batch):
            child.init_forward_metadata_in_graph(forward_batch)

    def init_cuda_graph_state(
        self, max_bs: int, max_num_tokens: int, kv_indices_buf: torch.Tensor | None = None
    ) -> None:
        """Both children's; the buffer of KV indices is the full one's."""
        self.full_attn_backend.init_cuda_graph_state(max_bs, max_num_tokens, kv_indices_buf)
        self.linear_attn_backend.init_cuda_graph_state(max_bs, max_num_tokens)

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return self.full_attn_backend.get_cuda_graph_seq_len_fill_value()

    def init_mha_chunk_metadata(
        self, forward_batch: ForwardBatchLike, disable_flashinfer_ragged: bool = False
    ) -> None:
        """The full backend's, where it has one: others plan all in ``init_forward_metadata``."""
        if exposes(self.full_attn_backend, "init_mha_chunk_metadata"):
            delegate(
                self.full_attn_backend,
                "init_mha_chunk_metadata",
                forward_batch,
                disable_flashinfer_ragged,
            )

    def preferred_form(self, forward_batch: ForwardBatchLike) -> AttentionForm:
        return self.full_attn_backend.preferred_form(forward_batch)

    def merge_state(
        self,
        out_a: torch.Tensor,
        lse_a: torch.Tensor,
        out_b: torch.Tensor,
        lse_b: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.full_attn_backend.merge_state(out_a, lse_a, out_b, lse_b)

    def update_mamba_state_after_mtp_verify(
        self,
        last_correct_step_indices: torch.Tensor,
        mamba_track_indices: torch.Tensor | None = None,
        mamba_steps_to_track: torch.Tensor | None = None,
        model: object = None,
        req_pool_indices: torch.Tensor | None = None,
    ) -> None:
        self.linear_attn_backend.update_mamba_state_after_mtp_verify(
            last_correct_step_indices,
            mamba_track_indices,
            mamba_steps_to_track,
            model,
            req_pool_indices,
        )

    def forward(
        self,
        q: Any = None,
        k: Any = None,
        v: Any = None,
        layer: Any = None,
        forward_batch: Any = None,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> Output:
        return self._serving(layer).forward(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)

    def forward_decode(
        self,
        q: Any = None,
        k: Any = None,
        v: Any = None,
        layer: Any = None,
        forward_batch: Any = None,
        save_kv_cache: bool = True,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Output:
        return self._serving(layer).forward_decode(
            q, k, v, layer, forward_batch, save_kv_cache, q_rope, k_rope, **kwargs
        )

    def forward_extend(
        self,
        q: Any = None,
        k: Any = None,
        v: Any = None,
        layer: Any = None,
        forward_batch: Any = None,
        save_kv_cache: bool = True,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Output:
        return self._serving(layer).forward_extend(
            q, k, v, layer, forward_batch, save_kv_cache, q_rope, k_rope, **kwargs
        )
