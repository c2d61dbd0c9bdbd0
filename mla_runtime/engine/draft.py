"""A draft model and its chain: what it proposes, the target model verifies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from mla_runtime.create import create_backend, create_draft_backend
from mla_runtime.engine.model import HIDDEN_SIZE, ModelOutput, TinyBlock, mla_attention
from mla_runtime.mla_core import plan_form
from mla_runtime.phase import ForwardMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mla_runtime.base import AttentionBackend
    from mla_runtime.batch import ForwardBatch
    from mla_runtime.engine.model import TinyModel
    from mla_runtime.engine.options import EngineOptions
    from mla_runtime.engine.requests import RequestTable
    from mla_runtime.runner import ModelRunner

__all__ = ["DraftChain"]


class DraftModel(nn.Module):
    """One layer over the next token and the target's features, as EAGLE (arXiv:2401.15077).

    Embedding and head are the target's. With random weights nothing would ever be accepted; the
    projection therefore starts from the embedding alone, which guesses right often, not always.
    """

    def __init__(self, options: EngineOptions, runner: ModelRunner, target: TinyModel) -> None:
        super().__init__()
        dtype, device = options.dtype, torch.device(options.device)
        self.req_to_token = target.req_to_token
        self.chunk_capacity = target.chunk_capacity
        self.embedding = target.embedding
        self.head = target.head
        self.norm = target.norm
        self.project = nn.Linear(
            2 * HIDDEN_SIZE, HIDDEN_SIZE, bias=False, dtype=dtype, device=device
        )
        with torch.no_grad():
            self.project.weight *= 0.3
            self.project.weight[:, :HIDDEN_SIZE] += torch.eye(
                HIDDEN_SIZE, dtype=dtype, device=device
            )
        self.block = TinyBlock(mla_attention(runner, 0), dtype, device)

    def forward(
        self,
        tokens: torch.Tensor,
        features: torch.Tensor,
        forward_batch: ForwardBatch,
        backend: AttentionBackend,
    ) -> ModelOutput:
        """The output for ``tokens[T]``, each with the ``features[T, hidden]`` of the one before."""
        form = plan_form(backend, forward_batch, self.req_to_token, self.chunk_capacity)
        hidden = self.project(torch.cat([self.embedding(tokens), features], dim=-1))
        normed = self.block.attention_norm(hidden)
        hidden = hidden + self.block.attention(normed, forward_batch, backend, form)
        out = self.block.feed_forward(hidden)
        return ModelOutput(self.head(self.norm(out)), out, form)


class DraftChain:
    """Drafts a chain of tokens per request (topk 1), over a cache of its own.

    Its cache is one token ahead: at position ``p`` stands the token ``p + 1``, with the target's
    features of token ``p``.
    """

    def __init__(
        self,
        options: EngineOptions,
        runner: ModelRunner,
        target: TinyModel,
        requests: RequestTable,
    ) -> None:
        """``runner`` has the draft's own pool, of one layer, over the target's slots."""
        self.steps = options.speculative
        self.requests = requests
        self.model = DraftModel(options, runner, target)
        self.backend = create_backend(options.backend, runner)
        self.step_backends = create_draft_backend(options.backend, runner, 1, self.steps)
        self._first: list[int] = []
        self._features = torch.empty(0, HIDDEN_SIZE)

    def extend(
        self,
        mode: ForwardMode,
        before: Sequence[int],
        tokens: Sequence[Sequence[int]],
        features: torch.Tensor,
    ) -> None:
        """Read what the target has kept: ``tokens`` one ahead of ``features[T, hidden]``."""
        counts = [len(new) for new in tokens]
        batch = self.requests.batch(mode, before, counts)
        self.backend.init_forward_metadata(batch)
        flat = torch.tensor([t for new in tokens for t in new], device=features.device)
        out = self.model(flat, features, batch, self.backend)
        last = torch.tensor(counts).cumsum(0).to(features.device) - 1
        self._first = out.logits[last].argmax(-1).tolist()
        self._features = out.hidden[last]

    def propose(self) -> list[list[int]]:
        """``steps`` tokens per request after the last one that was read."""
        lengths = self.requests.lengths
        chains = [[token] for token in self._first]
        features = self._features
        batches = [
            self.requests.batch(ForwardMode.DECODE, [n + step for n in lengths], [1] * len(lengths))
            for step in range(self.steps - 1)
        ]
        planned = self.requests.batch(ForwardMode.DECODE, lengths, [0] * len(lengths))
        self.step_backends.init_forward_metadata(planned)
        for batch, backend in zip(batches, self.step_backends.attn_backends, strict=True):
            tokens = torch.tensor([chain[-1] for chain in chains], device=features.device)
            out = self.model(tokens, features, batch, backend)
            features = out.hidden
            for chain, token in zip(chains, out.logits.argmax(-1).tolist(), strict=True):
                chain.append(token)
        return chains
