"""A small DeepSeek-style model with random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from mla_runtime.layer import MlaAttention
from mla_runtime.mla_core import MlaCore, plan_form

if TYPE_CHECKING:
    from mla_runtime.base import AttentionBackend
    from mla_runtime.batch import ForwardBatch
    from mla_runtime.pool import MlaKvPool
    from mla_runtime.runner import MlaModelConfig

__all__ = ["TinyModel"]


class TinyBlock(nn.Module):
    """Attention and a gated feed-forward layer, each behind a norm."""

    def __init__(
        self, attention: MlaAttention, hidden_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_norm = nn.RMSNorm(hidden_size, eps=1e-6, dtype=dtype, device=device)
        self.feed_forward_norm = nn.RMSNorm(hidden_size, eps=1e-6, dtype=dtype, device=device)
        self.gate = nn.Linear(hidden_size, 4 * hidden_size, bias=False, dtype=dtype, device=device)
        self.down = nn.Linear(2 * hidden_size, hidden_size, bias=False, dtype=dtype, device=device)

    def feed_forward(self, hidden: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate(self.feed_forward_norm(hidden)).chunk(2, dim=-1)
        out: torch.Tensor = hidden + self.down(nn.functional.silu(gate) * up)
        return out


class TinyModel(nn.Module):
    """Token ids in, logits out; every attention layer over the same backend."""

    def __init__(
        self,
        config: MlaModelConfig,
        pool: MlaKvPool,
        req_to_token: torch.Tensor,
        *,
        layers: int,
        hidden_size: int,
        vocab_size: int,
        dtype: torch.dtype,
        device: torch.device,
        chunk_capacity: int,
        seed: int = 0,
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.req_to_token = req_to_token
        self.chunk_capacity = chunk_capacity
        self.embedding = nn.Embedding(vocab_size, hidden_size, dtype=dtype, device=device)
        self.blocks = nn.ModuleList()
        for layer_id in range(layers):
            core = MlaCore(
                config.absorbed_layer(layer_id), config.mha_layer(layer_id), pool, req_to_token
            )
            attention = MlaAttention(config, core, hidden_size, dtype=dtype, device=device)
            self.blocks.append(TinyBlock(attention, hidden_size, dtype, device))
        self.norm = nn.RMSNorm(hidden_size, eps=1e-6, dtype=dtype, device=device)
        self.head = nn.Linear(hidden_size, vocab_size, bias=False, dtype=dtype, device=device)

    def forward(
        self, tokens: torch.Tensor, forward_batch: ForwardBatch, backend: AttentionBackend
    ) -> torch.Tensor:
        """Logits ``[T, vocab]`` of ``tokens[T]``, the new tokens of a batch that is planned."""
        form = plan_form(backend, forward_batch, self.req_to_token, self.chunk_capacity)
        hidden = self.embedding(tokens)
        for block in self.blocks:
            assert isinstance(block, TinyBlock)
            hidden = hidden + block.attention(
                block.attention_norm(hidden), forward_batch, backend, form
            )
            hidden = block.feed_forward(hidden)
        logits: torch.Tensor = self.head(self.norm(hidden))
        return logits
