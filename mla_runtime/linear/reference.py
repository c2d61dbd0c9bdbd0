"""Linear attention in float64 as the papers write it: one sequence, token by token."""

from __future__ import annotations

import math

import torch

__all__ = ["gdn_reference", "kda_reference", "lightning_reference"]


def lightning_reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slopes: torch.Tensor
) -> torch.Tensor:
    """``S_t = exp(-slope) S_{t-1} + k_t v_t^T``, ``o_t = q_t S_t / sqrt(K)``.

    ``q[T, H, K]``, ``k[T, H, K]``, ``v[T, H_v, V]``, ``slopes[H_v]``; returns float64
    ``[T, H_v * V]``. Lightning Attention-2, arXiv:2401.04658, equation 3 and its decay.
    """
    tokens, heads, size = v.shape
    shared = heads // k.shape[1]
    out = torch.zeros(tokens, heads, size, dtype=torch.float64)
    for h in range(heads):
        state = torch.zeros(k.shape[2], size, dtype=torch.float64)
        kept = torch.exp(-slopes[h].double())
        for t in range(tokens):
            state = kept * state + torch.outer(k[t, h // shared].double(), v[t, h].double())
            out[t, h] = q[t, h // shared].double() @ state
    return out.flatten(1) / math.sqrt(k.shape[2])


def gdn_reference(
    mixed_qkv: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    conv_weights: torch.Tensor,
    bias: torch.Tensor | None,
    A_log: torch.Tensor,
    dt_bias: torch.Tensor | None,
    heads: tuple[int, int],
    sizes: tuple[int, int],
) -> torch.Tensor:
    """``S_t = a_t (I - b_t k_t k_t^T) S_{t-1} + b_t k_t v_t^T``, ``o_t = q_t S_t / sqrt(K)``.

    ``mixed_qkv[T, C]`` with ``C = 2 H K + H_v V``, ``a[T, H_v]``, ``b[T, H_v]``,
    ``conv_weights[C, W]``, ``bias[C]``, ``A_log[H_v]``, ``dt_bias[H_v]``; ``heads`` is
    ``(H, H_v)``, ``sizes`` ``(K, V)``. Returns float64 ``[T, H_v * V]``. Gated DeltaNet,
    arXiv:2412.06464, equation 10 and figure 1.
    """
    q, k, v = _after_convolution(mixed_qkv, conv_weights, bias, heads, sizes)
    kept = _kept(a, A_log, dt_bias).expand(-1, -1, sizes[0])
    return _delta_rule(q, k, v, kept, b)


def kda_reference(
    mixed_qkv: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    conv_weights: torch.Tensor,
    bias: torch.Tensor | None,
    A_log: torch.Tensor,
    dt_bias: torch.Tensor | None,
    heads: tuple[int, int],
    sizes: tuple[int, int],
) -> torch.Tensor:
    """``S_t = (I - b_t k_t k_t^T) Diag(a_t) S_{t-1} + b_t k_t v_t^T``, ``o_t = q_t S_t / sqrt(K)``.

    As ``gdn_reference``, with ``a[T, H_v * K]`` and ``dt_bias[H_v * K]``. Kimi Linear,
    arXiv:2510.26692, equation 1.
    """
    q, k, v = _after_convolution(mixed_qkv, conv_weights, bias, heads, sizes)
    return _delta_rule(q, k, v, _kept(a, A_log, dt_bias), b)


def _kept(a: torch.Tensor, A_log: torch.Tensor, dt_bias: torch.Tensor | None) -> torch.Tensor:
    """``exp(-exp(A_log) * log(1 + exp(a + dt_bias)))``, ``[T, H_v, D]`` of ``a[T, H_v * D]``."""
    heads = A_log.numel()
    gate = a.double()
    if dt_bias is not None:
        gate = gate + dt_bias.double().flatten()
    softplus = torch.logaddexp(gate, torch.zeros_like(gate))
    rate = A_log.double().flatten().exp()[:, None]
    return torch.exp(-rate * softplus.view(a.shape[0], heads, a.shape[1] // heads))


def _delta_rule(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kept: torch.Tensor, b: torch.Tensor
) -> torch.Tensor:
    tokens, heads, size = v.shape
    shared = heads // k.shape[1]
    out = torch.zeros(v.shape, dtype=torch.float64)
    for h in range(heads):
        state = torch.zeros(k.shape[2], size, dtype=torch.float64)
        for t in range(tokens):
            key = k[t, h // shared]
            strength = 1.0 / (1.0 + torch.exp(-b[t, h].double()))
            erase = torch.eye(k.shape[2], dtype=torch.float64) - strength * torch.outer(key, key)
            state = erase @ torch.diag(kept[t, h]) @ state + strength * torch.outer(key, v[t, h])
            out[t, h] = q[t, h // shared] @ state
    return out.flatten(1) / math.sqrt(k.shape[2])


def _after_convolution(
    mixed_qkv: torch.Tensor,
    weights: torch.Tensor,
    bias: torch.Tensor | None,
    heads: tuple[int, int],
    sizes: tuple[int, int],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query, key and value heads, float64: convolved from zeros, SiLU, the first two normalised.

    One zero more than the convolution needs, so that no token is no special case.
    """
    channels, width = weights.shape
    convolved = torch.nn.functional.conv1d(
        torch.nn.functional.pad(mixed_qkv.double().T, (width, 0)),
        weights.double()[:, None],
        None if bias is None else bias.double(),
        groups=channels,
    ).T[1:]
    activated = convolved / (1.0 + torch.exp(-convolved))
    keys = heads[0] * sizes[0]
    q = activated[:, :keys].reshape(-1, heads[0], sizes[0])
    k = activated[:, keys : 2 * keys].reshape(-1, heads[0], sizes[0])
    v = activated[:, 2 * keys :].reshape(-1, heads[1], sizes[1])
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    return q, k, v
