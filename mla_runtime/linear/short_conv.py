"""The short causal convolution before a delta rule, over tokens that remember a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import silu

from mla_runtime.linear.precision import wide

if TYPE_CHECKING:
    from mla_runtime.linear.sequences import Sequences

__all__ = ["short_conv"]


def short_conv(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    windows: torch.Tensor,
    sequences: Sequences,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A depthwise convolution and SiLU: ``(out[T, C], final[N, C, W - 1], every[T, C, W - 1])``.

    ``x[T, C]``, ``weight[C, W]`` with the newest input last, ``bias[C]``, ``windows[N, C, W - 1]``
    the inputs before the pass, newest last. ``final`` are the windows after it, ``every`` those
    after each token. Extend, decode and verify differ in ``sequences`` alone; no shape depends on
    device data.
    """
    width = weight.shape[1]
    past = width - 1
    owner = sequences.owner
    # Every request's tokens behind the ``W - 1`` inputs of its window.
    line = x.new_empty(sequences.tokens + sequences.count * past, x.shape[1], dtype=wide(x).dtype)
    rows = torch.arange(sequences.tokens, device=x.device) + (owner + 1) * past
    starts = sequences.cu_seqlens + torch.arange(sequences.count + 1, device=x.device) * past
    back = torch.arange(past, device=x.device)
    line[rows] = wide(x)
    line[starts[:-1, None] + back] = windows.transpose(1, 2).to(line.dtype)

    taps = line[rows[:, None] - past + torch.arange(width, device=x.device)]
    out = (taps * wide(weight).T).sum(1)
    if bias is not None:
        out = out + wide(bias)
    final = line[starts[1:, None] - past + back]
    return silu(out).to(x.dtype), final.transpose(1, 2), taps[:, 1:].transpose(1, 2)
