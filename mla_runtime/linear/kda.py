"""Kimi Delta Attention: one decay per key channel and token; Kimi Linear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mla_runtime.linear.backend import LinearAttnBackend
from mla_runtime.linear.layer_inputs import gated_inputs

if TYPE_CHECKING:
    import torch

    from mla_runtime.linear.delta_rule import DeltaInputs
    from mla_runtime.linear.layer import LinearLayerLike

__all__ = ["KDAAttnBackend"]


class KDAAttnBackend(LinearAttnBackend):
    """KDA, arXiv:2510.26692; per SGLang 0.5.23, ``layers/attention/linear/kda_backend.py``."""

    def _inputs(
        self,
        layer: LinearLayerLike,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        a: torch.Tensor | None,
        b: torch.Tensor | None,
    ) -> DeltaInputs:
        return gated_inputs(layer, q, k, v, a, b, decays_per_head=layer.head_k_dim)
