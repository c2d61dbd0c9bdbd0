"""The decode steps of a draft model, each a backend that sees one more token than the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch

from mla_guard import guard, hook
from mla_runtime.batch import ForwardBatch
from mla_runtime.cutedsl_mla import CuteDslMLABackend
from mla_runtime.flashinfer_mla import FlashInferMLAAttnBackend
from mla_runtime.phase import ForwardMode
from mla_runtime.tokenspeed_mla import TokenspeedMLABackend
from mla_runtime.torch_mla import TorchMLABackend
from mla_runtime.trtllm_mla import TRTLLMMLABackend

if TYPE_CHECKING:
    from mla_runtime.protocols import ForwardBatchLike, ModelRunnerLike

__all__ = [
    "CuteDslMLAMultiStepDraftBackend",
    "FlashInferMLAMultiStepDraftBackend",
    "TRTLLMMLAMultiStepDraftBackend",
    "TokenspeedMLAMultiStepDraftBackend",
    "TorchMLAMultiStepDraftBackend",
]


@guard
class FlashInferMLAMultiStepDraftBackend:
    """``speculative_num_steps - 1`` decode backends for the steps of a draft chain.

    The first draft token comes from the draft extend; step ``i`` decodes token ``i + 1`` and sees
    ``seq_lens + i + 1`` keys, in the eager pass and on replay alike. Hooks per SGLang 0.5.23,
    ``layers/attention/flashinfer_mla_backend.py``.
    """

    backend_class: ClassVar[type[FlashInferMLAAttnBackend]] = FlashInferMLAAttnBackend

    def __init__(
        self, model_runner: ModelRunnerLike, topk: int, speculative_num_steps: int
    ) -> None:
        """The backends of a chain; one step needs none, since the draft extend has done it.

        Raises:
            ValueError: ``topk`` above 1 (a draft tree) or fewer than one step.
        """
        if topk != 1:
            raise ValueError(f"topk={topk}: the MLA backends draft a chain, expected topk=1")
        if speculative_num_steps < 1:
            raise ValueError(f"speculative_num_steps={speculative_num_steps}; expected at least 1")
        self.topk = topk
        self.speculative_num_steps = speculative_num_steps
        self.max_context_len = model_runner.model_config.context_len
        max_bs = model_runner.req_to_token_pool.size
        device = model_runner.device
        self.kv_indptr = torch.zeros(
            speculative_num_steps, max_bs + 1, dtype=torch.int32, device=device
        )
        self.q_indptr_decode = torch.arange(max_bs + 1, dtype=torch.int32, device=device)
        self.attn_backends = [
            self._step_backend(model_runner, self.kv_indptr[step])
            for step in range(speculative_num_steps - 1)
        ]
        self.needs_cpu_seq_lens = self.backend_class.needs_cpu_seq_lens

    def _step_backend(
        self, model_runner: ModelRunnerLike, kv_indptr: torch.Tensor
    ) -> FlashInferMLAAttnBackend:
        return self.backend_class(model_runner, True, kv_indptr, self.q_indptr_decode)

    def init_forward_metadata(self, forward_batch: ForwardBatchLike) -> None:
        """Plan every step of an eager chain."""
        for step, backend in enumerate(self.attn_backends):
            backend.init_forward_metadata(step_view(forward_batch, step))

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Allocate each step's own buffers: all steps are planned before the first one runs."""
        for backend in self.attn_backends:
            backend.init_cuda_graph_state(max_bs, max_num_tokens)

    @hook(phase="capture", after="init_cuda_graph_state")
    def init_forward_metadata_out_graph(
        self, forward_batch: ForwardBatchLike, in_capture: bool = False
    ) -> None:
        """Plan every step for the capture of the chain or its next replay."""
        for step, backend in enumerate(self.attn_backends):
            backend.init_forward_metadata_out_graph(step_view(forward_batch, step), in_capture)

    def init_forward_metadata_in_graph(self, forward_batch: ForwardBatchLike) -> None:
        """Record every step's device work."""
        for step, backend in enumerate(self.attn_backends):
            backend.init_forward_metadata_in_graph(step_view(forward_batch, step))

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """As the backends of the steps."""
        return 1


class TorchMLAMultiStepDraftBackend(FlashInferMLAMultiStepDraftBackend):
    """The steps over the torch reference."""

    backend_class: ClassVar[type[FlashInferMLAAttnBackend]] = TorchMLABackend


class TRTLLMMLAMultiStepDraftBackend(FlashInferMLAMultiStepDraftBackend):
    """The steps over TRT-LLM's kernels, or those of another library that ``backend`` names."""

    backend_class: ClassVar[type[FlashInferMLAAttnBackend]] = TRTLLMMLABackend

    def __init__(
        self,
        model_runner: ModelRunnerLike,
        topk: int,
        speculative_num_steps: int,
        backend: str = "trtllm-gen",
    ) -> None:
        self.backend = backend
        super().__init__(model_runner, topk, speculative_num_steps)

    def _step_backend(
        self, model_runner: ModelRunnerLike, kv_indptr: torch.Tensor
    ) -> FlashInferMLAAttnBackend:
        return TRTLLMMLABackend(
            model_runner, True, kv_indptr, self.q_indptr_decode, backend=self.backend
        )


class CuteDslMLAMultiStepDraftBackend(FlashInferMLAMultiStepDraftBackend):
    """The steps over the CuTe DSL kernels."""

    backend_class: ClassVar[type[FlashInferMLAAttnBackend]] = CuteDslMLABackend


class TokenspeedMLAMultiStepDraftBackend(FlashInferMLAMultiStepDraftBackend):
    """The steps over the tokenspeed-mla kernels."""

    backend_class: ClassVar[type[FlashInferMLAAttnBackend]] = TokenspeedMLABackend


def step_view(forward_batch: ForwardBatchLike, step: int) -> ForwardBatch:
    """The decode batch of one step: the draft batch with ``step + 1`` more tokens per request."""
    grown = step + 1
    host = forward_batch.seq_lens_cpu
    return ForwardBatch(
        forward_mode=ForwardMode.DECODE,
        batch_size=forward_batch.batch_size,
        req_pool_indices=forward_batch.req_pool_indices,
        seq_lens=forward_batch.seq_lens + grown,
        seq_lens_cpu=None if host is None else host + grown,
        out_cache_loc=forward_batch.out_cache_loc,
        positions=forward_batch.positions,
    )
