"""Lightning attention: a constant decay per head; MiniMax-01, Ring and Ling 2.5."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mla_runtime.linear.backend import LinearAttnBackend
from mla_runtime.linear.delta_rule import DeltaInputs
from mla_runtime.linear.precision import wide

if TYPE_CHECKING:
    import torch

    from mla_runtime.linear.layer import LinearLayerLike

__all__ = ["LightningAttnBackend"]


class LightningAttnBackend(LinearAttnBackend):
    """Lightning Attention-2, arXiv:2401.04658.

    Per SGLang 0.5.23, ``layers/attention/linear/lightning_backend.py``; the slopes come with the
    layer, see ``lightning_slopes``.
    """

    def _inputs(
        self,
        layer: LinearLayerLike,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        a: torch.Tensor | None,
        b: torch.Tensor | None,
    ) -> DeltaInputs:
        if a is not None or b is not None:
            raise ValueError(
                f"layer {layer.layer_id} got {'a' if a is not None else 'b'}; lightning attention "
                f"decays by its slopes alone"
            )
        if layer.slopes is None:
            raise ValueError(f"layer {layer.layer_id} has no slopes, which its decay is made from")
        decay = -wide(layer.slopes).view(1, -1, 1).expand(v.shape[0], -1, -1)
        return DeltaInputs(q, k, v, decay, None, float(layer.head_k_dim) ** -0.5)
