"""How much of its state a head keeps per token, as a logarithm: never positive."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import softplus

from mla_runtime.linear.precision import wide

__all__ = ["gated_log_decay", "l2_normalized", "lightning_slopes"]

L2_EPS = 1e-6
"""Added to the squared norm, as in fla-core 0.6.0, ``modules/norm/l2norm.py``."""


def lightning_slopes(num_heads: int, layer_index: int, num_layers: int) -> torch.Tensor:
    """Decay rates of lightning attention, float32 ``[num_heads]``: the decay is ``exp(-slope)``.

    ALiBi's slopes (arXiv:2108.12409, section 3), smaller in later layers by the factor
    ``1 - layer_index / (num_layers - 1) + 1e-5``: MiniMax-01, arXiv:2501.08313, and SGLang 0.5.23,
    ``layers/attention/linear/lightning_backend.py``.

    Raises:
        ValueError: no head, or a layer index out of range.
    """
    if num_heads < 1 or not 0 <= layer_index < num_layers:
        raise ValueError(
            f"num_heads={num_heads}, layer_index={layer_index}, num_layers={num_layers}; expected "
            f"at least one head and a layer index below the number of layers"
        )
    depth = layer_index / (num_layers - 1) if num_layers > 1 else 0.0
    slopes = torch.tensor(_alibi(num_heads), dtype=torch.float64) * (1.0 - depth + 1e-5)
    return slopes.float()


def _alibi(heads: int) -> list[float]:
    """``2 ** (-8 i / n)`` for a power of two; else the rest is every other slope of the double."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    if power == heads:
        return slopes
    return slopes + _alibi(2 * power)[0::2][: heads - power]


def gated_log_decay(
    a: torch.Tensor, A_log: torch.Tensor, dt_bias: torch.Tensor | None
) -> torch.Tensor:
    """``-exp(A_log) * softplus(a + dt_bias)``, ``[T, H, D]`` of ``a[T, H * D]``; ``A_log[H]``.

    One decay per head (``D = 1``) in Gated DeltaNet, arXiv:2412.06464, one per key channel in Kimi
    Linear, arXiv:2510.26692; ``dt_bias[H * D]``.
    """
    rate = wide(a) if dt_bias is None else wide(a) + wide(dt_bias.reshape(-1))
    heads = A_log.numel()
    per_head = softplus(rate).view(a.shape[0], heads, a.shape[1] // heads)
    return -wide(A_log).reshape(1, heads, 1).exp() * per_head


def l2_normalized(x: torch.Tensor) -> torch.Tensor:
    """Each head's vector over its Euclidean norm; ``[T, H, K]``, in the dtype of ``x``."""
    precise = wide(x)
    return (precise * (precise.square().sum(-1, keepdim=True) + L2_EPS).rsqrt()).to(x.dtype)
