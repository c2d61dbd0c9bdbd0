"""A small model with random weights: DeepSeek-style, or with linear attention between."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from mla_runtime.engine.linear_attention import LinearAttention
from mla_runtime.layer import MlaAttention
from mla_runtime.mla_core import MlaCore, plan_form

if TYPE_CHECKING:
    from mla_runtime.attention_form import AttentionForm
    from mla_runtime.base import AttentionBackend
    from mla_runtime.batch import ForwardBatch
    from mla_runtime.engine.options import EngineOptions
    from mla_runtime.runner import ModelRunner

__all__ = ["HIDDEN_SIZE", "VOCAB_SIZE", "ModelOutput", "TinyBlock", "TinyModel", "mla_attention"]

HIDDEN_SIZE = 128
VOCAB_SIZE = 512


class ModelOutput(NamedTuple):
    """``logits[T, vocab]``, the ``hidden[T, hidden_size]`` that they were read from, the form."""

    logits: torch.Tensor
    hidden: torch.Tensor
    form: AttentionForm


class TinyBlock(nn.Module):
    """Attention and a gated feed-forward layer, each behind a norm."""

    def __init__(self, attention: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        size = HIDDEN_SIZE
        self.attention = attention
        self.attention_norm = nn.RMSNorm(size, eps=1e-6, dtype=dtype, device=device)
        self.feed_forward_norm = nn.RMSNorm(size, eps=1e-6, dtype=dtype, device=device)
        self.gate = nn.Linear(size, 4 * size, bias=False, dtype=dtype, device=device)
        self.down = nn.Linear(2 * size, size, bias=False, dtype=dtype, device=device)

    def feed_forward(self, hidden: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate(self.feed_forward_norm(hidden)).chunk(2, dim=-1)
        out: torch.Tensor = hidden + self.down(nn.functional.silu(gate) * up)
        return out


class TinyModel(nn.Module):
    """Token ids in, logits out; every attention layer over the same backend."""

    def __init__(self, options: EngineOptions, runner: ModelRunner, chunk_capacity: int) -> None:
        super().__init__()
        torch.manual_seed(options.seed)
        dtype, device = options.dtype, torch.device(options.device)
        self.req_to_token = runner.req_to_token_pool.req_to_token
        self.chunk_capacity = chunk_capacity
        self.embedding = nn.Embedding(VOCAB_SIZE, HIDDEN_SIZE, dtype=dtype, device=device)
        self.blocks = nn.ModuleList(
            TinyBlock(
                mla_attention(runner, layer_id)
                if kind == "mla"
                else LinearAttention(options, kind, layer_id, HIDDEN_SIZE),
                dtype,
                device,
            )
            for layer_id, kind in enumerate(options.kinds)
        )
        self.norm = nn.RMSNorm(HIDDEN_SIZE, eps=1e-6, dtype=dtype, device=device)
        self.head = nn.Linear(HIDDEN_SIZE, VOCAB_SIZE, bias=False, dtype=dtype, device=device)

    def forward(
        self, tokens: torch.Tensor, forward_batch: ForwardBatch, backend: AttentionBackend
    ) -> ModelOutput:
        """The output for ``tokens[T]``, the new tokens of a batch that is planned.

        The micro-batches of a batch in two halves take turns layer by layer, so that both of
        their plans are in use at once.
        """
        parts = [b for b in forward_batch.tbo_children or [forward_batch] if b.batch_size]
        forms = [plan_form(backend, b, self.req_to_token, self.chunk_capacity) for b in parts]
        counts = [b.out_cache_loc.shape[0] for b in parts]
        hidden = list(self.embedding(tokens).split(counts))
        for block in self.blocks:
            assert isinstance(block, TinyBlock)
            for i, (part, form) in enumerate(zip(parts, forms, strict=True)):
                normed = block.attention_norm(hidden[i])
                attended = hidden[i] + block.attention(normed, part, backend, form)
                hidden[i] = block.feed_forward(attended)
        out = torch.cat(hidden)
        return ModelOutput(self.head(self.norm(out)), out, forms[0])


def mla_attention(runner: ModelRunner, layer_id: int) -> MlaAttention:
    """An MLA layer of the tiny model's width."""
    config, req_to_token = runner.model_config, runner.req_to_token_pool.req_to_token
    heads = config.num_attention_heads // runner.tp_size
    core = MlaCore(
        config.absorbed_layer(layer_id, heads),
        config.mha_layer(layer_id, heads),
        runner.token_to_kv_pool,
        req_to_token,
    )
    return MlaAttention(
        config,
        core,
        HIDDEN_SIZE,
        dtype=runner.dtype,
        device=runner.device,
        tp_group=runner.dcp_group,
    )
