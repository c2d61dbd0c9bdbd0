"""Two-batch overlap: one backend for the whole batch and one for each half of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from mla_guard import delegate, exposes, verify
from mla_runtime.base import AttentionBackend
from mla_runtime.micro_batches import split_batch
from mla_runtime.phase import phase_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

    from mla_guard import Routes
    from mla_runtime.attention_form import AttentionForm
    from mla_runtime.base import Output
    from mla_runtime.phase import Phase
    from mla_runtime.protocols import ForwardBatchLike

__all__ = ["TboAttnBackend"]


class TboAttnBackend(AttentionBackend):
    """Whole batches on ``primary``, the micro-batches of a batch on one of ``children`` each.

    A batch with ``tbo_children`` is planned on all three; a layer is then called with the whole
    batch, or with each micro-batch, whose ``tbo_child_index`` says which child serves it. Hooks per
    SGLang 0.5.23, ``layers/attention/tbo_backend.py``, where the engine calls the children itself.
    """

    __mla_routes__: ClassVar[Routes] = {
        "needs_cpu_seq_lens": {"any": ("primary", "children")},
        "supports_cuda_graph": {"all": ("primary", "children")},
        "data_type": "primary",
        "max_context_len": "primary",
        "req_to_token_pool": "primary",
        "token_to_kv_pool": "primary",
        "init_forward_metadata": ("primary", "children"),
        "init_forward_metadata_out_graph": ("primary", "children"),
        "init_forward_metadata_in_graph": ("primary", "children"),
        "init_cuda_graph_state": ("primary", "children"),
        "get_cuda_graph_seq_len_fill_value": "primary",
        "init_mha_chunk_metadata": {"whole batch": "primary", "micro-batch": "children"},
        "preferred_form": {"whole batch": "primary", "micro-batch": "children"},
        "merge_state": "primary",
        "update_mamba_state_after_mtp_verify": "primary",
        "forward": {"whole batch": "primary", "micro-batch": "children"},
        "forward_decode": {"whole batch": "primary", "micro-batch": "children"},
        "forward_extend": {"whole batch": "primary", "micro-batch": "children"},
    }

    def __init__(self, primary: AttentionBackend, children: Sequence[AttentionBackend]) -> None:
        """Combine three backends of the same pools, and verify that no hook gets lost.

        Raises:
            ValueError: not two children, or one whose padding rows have another KV length.
            HookContractError: the routes and the backends do not agree.
        """
        super().__init__()
        if len(children) != 2:
            raise ValueError(f"{len(children)} children; expected one per micro-batch, two")
        self.primary = primary
        self.children = tuple(children)
        everyone = (primary, *self.children)
        fills = [backend.get_cuda_graph_seq_len_fill_value() for backend in everyone]
        if len(set(fills)) > 1:
            raise ValueError(
                f"get_cuda_graph_seq_len_fill_value() is {fills[0]} for the primary backend and "
                f"{fills[1:]} for its children; one padded batch serves all three"
            )
        self.needs_cpu_seq_lens = any(backend.needs_cpu_seq_lens for backend in everyone)
        self.supports_cuda_graph = all(backend.supports_cuda_graph for backend in everyone)
        self.data_type = primary.data_type
        self.max_context_len = primary.max_context_len
        self.req_to_token_pool = primary.req_to_token_pool
        self.token_to_kv_pool = primary.token_to_kv_pool
        self._captured_in_halves: dict[tuple[Phase, int], bool] = {}
        verify(self)

    def _serving(self, forward_batch: ForwardBatchLike) -> AttentionBackend:
        index: int | None = getattr(forward_batch, "tbo_child_index", None)
        return self.primary if index is None else self.children[index]

    def _planned(
        self, forward_batch: ForwardBatchLike, parts: Sequence[ForwardBatchLike] | None
    ) -> Iterator[tuple[AttentionBackend, ForwardBatchLike]]:
        """Who plans what: the batch on its own backend, then each part that is not empty."""
        yield self._serving(forward_batch), forward_batch
        if parts is not None:
            for child, part in zip(self.children, parts, strict=True):
                if part.batch_size > 0:
                    yield child, part

    def init_forward_metadata(self, forward_batch: ForwardBatchLike) -> None:
        for backend, batch in self._planned(forward_batch, forward_batch.tbo_children):
            backend.init_forward_metadata(batch)

    def init_forward_metadata_out_graph(
        self, forward_batch: ForwardBatchLike, in_capture: bool = False
    ) -> None:
        """As the eager plan; the replay of a graph that was captured in halves splits its batch."""
        graph = phase_of(forward_batch.forward_mode), forward_batch.batch_size
        parts = forward_batch.tbo_children
        if in_capture:
            self._captured_in_halves[graph] = parts is not None
        elif parts is None and self._captured_in_halves.get(graph, False):
            parts = split_batch(forward_batch)
        for backend, batch in self._planned(forward_batch, parts):
            backend.init_forward_metadata_out_graph(batch, in_capture)

    def init_forward_metadata_in_graph(self, forward_batch: ForwardBatchLike) -> None:
        for backend, batch in self._planned(forward_batch, forward_batch.tbo_children):
            backend.init_forward_metadata_in_graph(batch)

    def init_cuda_graph_state(
        self, max_bs: int, max_num_tokens: int, kv_indices_buf: torch.Tensor | None = None
    ) -> None:
        """Everyone's own; ``kv_indices_buf`` is the primary's."""
        self._captured_in_halves.clear()
        self.primary.init_cuda_graph_state(max_bs, max_num_tokens, kv_indices_buf)
        for child in self.children:
            child.init_cuda_graph_state(max_bs, max_num_tokens)

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return self.primary.get_cuda_graph_seq_len_fill_value()

    def init_mha_chunk_metadata(
        self, forward_batch: ForwardBatchLike, disable_flashinfer_ragged: bool = False
    ) -> None:
        """The serving backend's, where it has one."""
        serving = self._serving(forward_batch)
        if exposes(serving, "init_mha_chunk_metadata"):
            delegate(serving, "init_mha_chunk_metadata", forward_batch, disable_flashinfer_ragged)

    def preferred_form(self, forward_batch: ForwardBatchLike) -> AttentionForm:
        return self._serving(forward_batch).preferred_form(forward_batch)

    def merge_state(
        self,
        out_a: torch.Tensor,
        lse_a: torch.Tensor,
        out_b: torch.Tensor,
        lse_b: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.primary.merge_state(out_a, lse_a, out_b, lse_b)

    def update_mamba_state_after_mtp_verify(
        self,
        last_correct_step_indices: torch.Tensor,
        mamba_track_indices: torch.Tensor | None = None,
        mamba_steps_to_track: torch.Tensor | None = None,
        model: object = None,
        req_pool_indices: torch.Tensor | None = None,
    ) -> None:
        """The primary's, which planned the whole batch: drafted states are kept by request."""
        self.primary.update_mamba_state_after_mtp_verify(
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
        return self._serving(forward_batch).forward_decode(
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
