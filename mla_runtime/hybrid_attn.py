"""One backend for prefill, another for decode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mla_guard import delegate, exposes, verify
from mla_runtime.base import AttentionBackend
from mla_runtime.phase import Phase, phase_of

if TYPE_CHECKING:
    import torch

    from mla_guard import Routes
    from mla_runtime.attention_form import AttentionForm
    from mla_runtime.base import Output
    from mla_runtime.protocols import ForwardBatchLike

__all__ = ["HybridAttnBackend", "SpeculativeAttentionMode"]

SpeculativeAttentionMode = Literal["prefill", "decode"]


class HybridAttnBackend(AttentionBackend):
    """Decode and idle passes on ``decode_backend``, every other on ``prefill_backend``.

    ``speculative_attention_mode`` says which of them verifies drafts. Hooks per SGLang 0.5.23,
    ``layers/attention/hybrid_attn_backend.py``.
    """

    __mla_routes__: ClassVar[Routes] = {
        "needs_cpu_seq_lens": {"any": ("prefill_backend", "decode_backend")},
        "supports_cuda_graph": {"all": ("prefill_backend", "decode_backend")},
        "data_type": "decode_backend",
        "max_context_len": "decode_backend",
        "req_to_token_pool": "decode_backend",
        "token_to_kv_pool": "decode_backend",
        "init_forward_metadata": {
            "decode": "decode_backend",
            "extend": "prefill_backend",
            "verify": ("prefill_backend", "decode_backend"),
        },
        "init_forward_metadata_out_graph": {
            "decode": "decode_backend",
            "extend": "prefill_backend",
            "verify": ("prefill_backend", "decode_backend"),
        },
        "init_forward_metadata_in_graph": {
            "decode": "decode_backend",
            "extend": "prefill_backend",
            "verify": ("prefill_backend", "decode_backend"),
        },
        "init_cuda_graph_state": ("prefill_backend", "decode_backend"),
        "get_cuda_graph_seq_len_fill_value": "decode_backend",
        "init_mha_chunk_metadata": "prefill_backend",
        "preferred_form": {
            "decode": "decode_backend",
            "extend": "prefill_backend",
            "verify": ("prefill_backend", "decode_backend"),
        },
        "merge_state": "prefill_backend",
        "update_mamba_state_after_mtp_verify": {"verify": ("prefill_backend", "decode_backend")},
        "forward": {
            "decode": "decode_backend",
            "extend": "prefill_backend",
            "verify": ("prefill_backend", "decode_backend"),
        },
        "forward_decode": "decode_backend",
        "forward_extend": {
            "extend": "prefill_backend",
            "verify": ("prefill_backend", "decode_backend"),
        },
    }

    def __init__(
        self,
        prefill_backend: AttentionBackend,
        decode_backend: AttentionBackend,
        speculative_attention_mode: SpeculativeAttentionMode = "prefill",
    ) -> None:
        """Combine two backends over the same pools, and verify that no hook gets lost.

        Raises:
            ValueError: another mode than ``"prefill"`` and ``"decode"``.
            HookContractError: the routes and the children do not agree.
        """
        super().__init__()
        if speculative_attention_mode not in ("prefill", "decode"):
            raise ValueError(
                f"speculative_attention_mode={speculative_attention_mode!r}; expected 'prefill' or "
                f"'decode'"
            )
        self.prefill_backend = prefill_backend
        self.decode_backend = decode_backend
        self.speculative_attention_mode = speculative_attention_mode
        self.needs_cpu_seq_lens = (
            prefill_backend.needs_cpu_seq_lens or decode_backend.needs_cpu_seq_lens
        )
        self.supports_cuda_graph = (
            prefill_backend.supports_cuda_graph and decode_backend.supports_cuda_graph
        )
        self.data_type = decode_backend.data_type
        self.max_context_len = decode_backend.max_context_len
        self.req_to_token_pool = decode_backend.req_to_token_pool
        self.token_to_kv_pool = decode_backend.token_to_kv_pool
        verify(self)

    def _verifying(self) -> AttentionBackend:
        decodes = self.speculative_attention_mode == "decode"
        return self.decode_backend if decodes else self.prefill_backend

    def _serving(self, forward_batch: ForwardBatchLike) -> AttentionBackend:
        phase = phase_of(forward_batch.forward_mode)
        if phase in (Phase.DECODE, Phase.IDLE):
            return self.decode_backend
        return self._verifying() if phase is Phase.TARGET_VERIFY else self.prefill_backend

    def init_forward_metadata(self, forward_batch: ForwardBatchLike) -> None:
        self._serving(forward_batch).init_forward_metadata(forward_batch)

    def init_forward_metadata_out_graph(
        self, forward_batch: ForwardBatchLike, in_capture: bool = False
    ) -> None:
        self._serving(forward_batch).init_forward_metadata_out_graph(forward_batch, in_capture)

    def init_forward_metadata_in_graph(self, forward_batch: ForwardBatchLike) -> None:
        self._serving(forward_batch).init_forward_metadata_in_graph(forward_batch)

    def init_cuda_graph_state(
        self, max_bs: int, max_num_tokens: int, kv_indices_buf: torch.Tensor | None = None
    ) -> None:
        """Both children's: draft extends are captured on the prefill backend, decode on the other.

        ``kv_indices_buf`` is the decode backend's; two planners cannot share one.
        """
        self.decode_backend.init_cuda_graph_state(max_bs, max_num_tokens, kv_indices_buf)
        self.prefill_backend.init_cuda_graph_state(max_bs, max_num_tokens)

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return self.decode_backend.get_cuda_graph_seq_len_fill_value()

    def init_mha_chunk_metadata(
        self, forward_batch: ForwardBatchLike, disable_flashinfer_ragged: bool = False
    ) -> None:
        """The prefill backend's, where it has one: others plan all in ``init_forward_metadata``."""
        if exposes(self.prefill_backend, "init_mha_chunk_metadata"):
            delegate(
                self.prefill_backend,
                "init_mha_chunk_metadata",
                forward_batch,
                disable_flashinfer_ragged,
            )

    def preferred_form(self, forward_batch: ForwardBatchLike) -> AttentionForm:
        return self._serving(forward_batch).preferred_form(forward_batch)

    def merge_state(
        self,
        out_a: torch.Tensor,
        lse_a: torch.Tensor,
        out_b: torch.Tensor,
        lse_b: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The prefill backend's: it attends the chunks whose states are merged."""
        return self.prefill_backend.merge_state(out_a, lse_a, out_b, lse_b)

    def update_mamba_state_after_mtp_verify(
        self,
        last_correct_step_indices: torch.Tensor,
        mamba_track_indices: torch.Tensor | None = None,
        mamba_steps_to_track: torch.Tensor | None = None,
        model: object = None,
        req_pool_indices: torch.Tensor | None = None,
    ) -> None:
        """That of the child that verified."""
        self._verifying().update_mamba_state_after_mtp_verify(
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
        return self._serving(forward_batch).forward(
            q, k, v, layer, forward_batch, save_kv_cache, **kwargs
        )

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
        return self.decode_backend.forward_decode(
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
        return self._serving(forward_batch).forward_extend(
            q, k, v, layer, forward_batch, save_kv_cache, q_rope, k_rope, **kwargs
        )
