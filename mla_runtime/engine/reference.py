"""The tiny model in float64 over a whole sequence at once: what the engine's phases must match."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch

from mla_runtime.dense_reference import dense_mla
from mla_runtime.engine.model import TinyBlock

if TYPE_CHECKING:
    from mla_runtime.engine.model import TinyModel

__all__ = ["DenseModel"]


class DenseModel:
    """The same weights in float64 on the host, without cache, pages or absorption."""

    def __init__(self, model: TinyModel) -> None:
        pools = {id(b.attention.core.pool): None for b in model.blocks if isinstance(b, TinyBlock)}
        memo = dict.fromkeys(pools)
        self._model = copy.deepcopy(model, memo).cpu().double()

    def logits(self, tokens: list[int]) -> torch.Tensor:
        """Float64 logits ``[L, vocab]`` of one sequence."""
        model = self._model
        positions = torch.arange(len(tokens))
        hidden = model.embedding(torch.tensor(tokens, dtype=torch.int64))
        for block in model.blocks:
            assert isinstance(block, TinyBlock)
            attention = block.attention
            q_nope, q_pe, latent, k_pe = attention.project(block.attention_norm(hidden), positions)
            values = dense_mla(
                q_nope,
                q_pe,
                latent,
                k_pe,
                attention.kv_b_proj.weight,
                attention.config.scaling,
            )
            hidden = block.feed_forward(hidden + attention.o_proj(values.flatten(1)))
        logits: torch.Tensor = model.head(model.norm(hidden))
        return logits
