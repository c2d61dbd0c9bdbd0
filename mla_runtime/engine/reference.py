"""The tiny model in float64 over a whole sequence at once: what the engine's phases must match."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import nn

from mla_runtime.dense_reference import dense_mla
from mla_runtime.engine.linear_attention import LinearAttention
from mla_runtime.engine.model import TinyBlock
from mla_runtime.layer import MlaAttention

if TYPE_CHECKING:
    from mla_runtime.engine.model import TinyModel

__all__ = ["DenseModel"]


class DenseModel:
    """The same weights in float64 on the host, without cache, pages, states or absorption."""

    def __init__(self, model: TinyModel) -> None:
        # Pools and groups are not copied: the reference has no cache and one rank.
        left_out = {
            id(part): None
            for block in model.blocks
            if isinstance(attention := block.attention, MlaAttention)
            for part in (attention.core.pool, attention.tp_group)
        }
        self._model = copy.deepcopy(model, dict(left_out)).cpu().double()
        self._known: list[tuple[list[int], torch.Tensor]] = []

    def logits(self, tokens: list[int]) -> torch.Tensor:
        """Float64 logits ``[L, vocab]`` of one sequence; what begins a known one costs nothing."""
        for known, logits in self._known:
            if known[: len(tokens)] == tokens:
                return logits[: len(tokens)]
        self._known.append((list(tokens), self._computed(tokens)))
        return self._known[-1][1]

    @torch.inference_mode()
    def _computed(self, tokens: list[int]) -> torch.Tensor:
        model = self._model
        hidden = model.embedding(torch.tensor(tokens, dtype=torch.int64))
        for block in model.blocks:
            assert isinstance(block, TinyBlock)
            normed = block.attention_norm(hidden)
            hidden = block.feed_forward(hidden + _dense(block.attention, normed))
        logits: torch.Tensor = model.head(model.norm(hidden))
        return logits


def _dense(attention: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    if isinstance(attention, LinearAttention):
        return attention.dense(hidden)
    assert isinstance(attention, MlaAttention)
    q_nope, q_pe, latent, k_pe = attention.project(hidden, torch.arange(hidden.shape[0]))
    values = dense_mla(
        q_nope, q_pe, latent, k_pe, attention.kv_b_proj.weight, attention.config.scaling
    )
    projected: torch.Tensor = attention.o_proj(values.flatten(1))
    return projected
