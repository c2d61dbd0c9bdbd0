"""A linear-attention layer of the tiny model: projections, gates, and the backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mla_runtime.linear.gates import lightning_slopes
from mla_runtime.linear.layer import LinearAttentionLayer
from mla_runtime.linear.reference import gdn_reference, kda_reference, lightning_reference
from mla_runtime.linear.state_pool import LinearStateShape

if TYPE_CHECKING:
    from mla_runtime.attention_form import AttentionForm
    from mla_runtime.base import AttentionBackend
    from mla_runtime.batch import ForwardBatch
    from mla_runtime.engine.options import EngineOptions

__all__ = ["LinearAttention", "head_size", "state_shape"]

CONV_WIDTH = 4


def head_size(options: EngineOptions) -> int:
    """Size of every query, key and value head: that of the published models on a GPU."""
    return 128 if options.device.startswith("cuda") else 16


def state_shape(options: EngineOptions, kind: str) -> LinearStateShape:
    """The recurrent state of one layer of a kind."""
    heads, size = options.heads, head_size(options)
    conv = (0, 0) if kind == "lightning" else (3 * heads * size, CONV_WIDTH - 1)
    return LinearStateShape(heads, size, size, *conv)


class LinearAttention(nn.Module):
    """Lightning attention, gated delta net or KDA, with a gated norm on the heads' outputs.

    Lightning attention normalises queries and keys by head, the other two convolve all three; as
    in Ring 2.5, Qwen3-Next and Kimi-Linear, whose sizes and low-rank gates are left out.
    """

    def __init__(self, options: EngineOptions, kind: str, layer_id: int, hidden_size: int) -> None:
        super().__init__()
        dtype, device = options.dtype, torch.device(options.device)
        self.kind = kind
        self.layer_id = layer_id
        self.heads, self.size = options.heads, head_size(options)
        width = self.heads * self.size

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False, dtype=dtype, device=device)

        def parameter(tensor: torch.Tensor) -> nn.Parameter:
            return nn.Parameter(tensor.to(device), requires_grad=False)

        self.q_proj, self.k_proj, self.v_proj = (linear(hidden_size, width) for _ in range(3))
        self.gate_proj, self.o_proj = linear(hidden_size, width), linear(width, hidden_size)
        self.norm = nn.RMSNorm(self.size, eps=1e-6, dtype=dtype, device=device)
        if kind == "lightning":
            self.qk_norm = nn.RMSNorm(self.size, eps=1e-6, dtype=dtype, device=device)
            slopes = lightning_slopes(self.heads, layer_id, len(options.kinds))
            self.slopes = parameter(slopes)
            return
        decays = self.heads if kind == "gdn" else width
        self.a_proj, self.b_proj = linear(hidden_size, decays), linear(hidden_size, self.heads)
        self.conv_weights = parameter(
            torch.randn(3 * width, CONV_WIDTH, dtype=dtype) * CONV_WIDTH**-0.5
        )
        self.A_log = parameter(torch.empty(self.heads).uniform_(0, 1))
        self.dt_bias = parameter(torch.empty(decays).uniform_(-2, 0))

    @property
    def layer(self) -> LinearAttentionLayer:
        """The layer as a backend sees it."""
        lightning = self.kind == "lightning"
        return LinearAttentionLayer(
            self.layer_id,
            *(self.heads,) * 3,
            *(self.size,) * 3,
            conv_weights=None if lightning else self.conv_weights,
            A_log=None if lightning else self.A_log,
            dt_bias=None if lightning else self.dt_bias,
            slopes=self.slopes if lightning else None,
        )

    def forward(
        self,
        hidden: torch.Tensor,
        forward_batch: ForwardBatch,
        backend: AttentionBackend,
        form: AttentionForm,
    ) -> torch.Tensor:
        """``[T, hidden_size]`` of ``hidden[T, hidden_size]``; the form is MLA's affair."""
        q, k, v = self._projected(hidden)
        layer: Any = self.layer  # not a LayerLike: the linear backend's side of the same hook
        gates: dict[str, Any] = {}
        if self.kind != "lightning":
            gates["a"], gates["b"] = self._gates(hidden)
        values = backend.forward(q, k, v, layer, forward_batch, **gates)
        assert isinstance(values, torch.Tensor)
        return self._output(values, hidden)

    def dense(self, hidden: torch.Tensor) -> torch.Tensor:
        """The same over a whole sequence at once, from the plain recurrence in float64."""
        q, k, v = self._projected(hidden)
        if self.kind == "lightning":
            q, k, v = (self._by_head(x) for x in (q, k, v))
            values = lightning_reference(q, k, v, self.slopes)
        else:
            reference = gdn_reference if self.kind == "gdn" else kda_reference
            values = reference(
                torch.cat([q, k, v], dim=-1),
                *self._gates(hidden),
                self.conv_weights,
                None,
                self.A_log,
                self.dt_bias,
                (self.heads, self.heads),
                (self.size, self.size),
            )
        return self._output(values, hidden)

    def _projected(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        q, k, v = self.q_proj(hidden), self.k_proj(hidden), self.v_proj(hidden)
        if self.kind == "lightning":
            q, k = (self.qk_norm(self._by_head(x)).flatten(1) for x in (q, k))
        return q, k, v

    def _gates(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The inputs of the decay and of the write strength."""
        return self.a_proj(hidden), self.b_proj(hidden)

    def _output(self, values: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        gated = self.norm(self._by_head(values)).flatten(1) * self.gate_proj(hidden).sigmoid()
        projected: torch.Tensor = self.o_proj(gated)
        return projected

    def _by_head(self, rows: torch.Tensor) -> torch.Tensor:
        return rows.view(rows.shape[0], self.heads, self.size)
