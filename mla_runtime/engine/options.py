"""What ``python -m mla_runtime`` lets people choose."""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["LAYOUTS", "EngineOptions", "Layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """A model's layers: one of full attention after every ``linear_layers`` of ``linear_kind``."""

    linear_kind: str | None = None
    linear_layers: int = 0
    default_layers: int = 2

    def kinds(self, layers: int) -> list[str]:
        """``"mla"`` or the kind of linear attention of each layer."""
        if self.linear_kind is None:
            return ["mla"] * layers
        period = self.linear_layers + 1
        return [
            "mla" if index % period == self.linear_layers else self.linear_kind
            for index in range(layers)
        ]


LAYOUTS = {
    "mla": Layout(),
    "ring": Layout("lightning", 7, default_layers=8),
    "kimi-linear": Layout("kda", 3, default_layers=4),
    "gated-delta-net": Layout("gdn", 3, default_layers=4),
}
"""By name: DeepSeek; Ring and Ling 2.5 (7 of 8 layers lightning attention); Kimi-Linear (3 of 4
KDA, arXiv:2510.26692); and the layout of Qwen3-Next (3 of 4 gated delta net) with MLA between."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Sizes, kernels and the ways of an engine; ``layers`` None is the layout's own number."""

    model: str = "mla"
    backend: str = "auto"
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    kv_dtype: torch.dtype | None = None
    page_size: int = 64
    heads: int = 8
    layers: int | None = None
    requests: int = 4
    prompt: int = 96
    speculative: int = 0
    """Tokens that the draft model proposes per step; 0 decodes one token per step."""
    split_prefill_decode: bool = False
    """A backend for prefill and verify, and another one for decode."""
    tbo: bool = False
    """Two-batch overlap: every pass over more than one request in two halves."""
    seed: int = 0

    @property
    def kinds(self) -> list[str]:
        """The kind of attention of each layer."""
        layout = LAYOUTS[self.model]
        return layout.kinds(self.layers or layout.default_layers)

    @property
    def linear_kind(self) -> str | None:
        """The kind of its linear layers, None for a model without one."""
        return next((kind for kind in self.kinds if kind != "mla"), None)

    @property
    def draft_tokens(self) -> int:
        """Query tokens per request of a verify: the last token and what is drafted after it."""
        return (self.speculative or 3) + 1
