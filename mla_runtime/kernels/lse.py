"""From a kernel's log-sum-exp to the runtime's: natural, with one value for "no key"."""

from __future__ import annotations

import math

import torch

__all__ = ["canonical_lse", "clear_empty_requests", "finish_decode", "to_base2"]

_EMPTY_BELOW = -1.0e4
"""FlashInfer's ragged kernels write -5e4 for a row without a key (``math.cuh``, 0.6.18)."""


def canonical_lse(lse: torch.Tensor, *, base2: bool) -> torch.Tensor:
    """Natural LSE of ``lse``; empty rows, whatever the kernel wrote for them, are ``-inf``."""
    empty = (lse <= _EMPTY_BELOW) | (lse == math.inf)
    natural = lse * math.log(2.0) if base2 else lse
    return natural.masked_fill(empty, -math.inf)


def to_base2(lse: torch.Tensor) -> torch.Tensor:
    """Base-2 LSE of a natural one; ``-inf`` becomes a finite number that weighs nothing.

    ``flashinfer.merge_state`` subtracts the larger of two, which is NaN for two ``-inf``.
    """
    return (lse * math.log2(math.e)).clamp_min(5.0 * _EMPTY_BELOW)


def clear_empty_requests(
    out: torch.Tensor,
    lse: torch.Tensor | None,
    kv_lens: torch.Tensor,
    cum_seq_lens_q: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Output 0 and LSE ``-inf`` for the queries of requests without a key.

    ``out[T, H, D]``, ``lse[T, H]``, ``kv_lens[B]``, ``cum_seq_lens_q[B + 1]``. No device sync.
    """
    tokens = torch.arange(out.shape[0], device=out.device, dtype=torch.int32)
    request = torch.searchsorted(cum_seq_lens_q[1:].contiguous(), tokens, right=True)
    empty = (kv_lens == 0)[request.clamp_max(kv_lens.shape[0] - 1)]
    # Not a product with zero: what the kernel left there may be NaN.
    out = out.masked_fill(empty[:, None, None], 0.0)
    return out, None if lse is None else lse.masked_fill(empty[:, None], -math.inf)


def finish_decode(
    out: torch.Tensor,
    lse: torch.Tensor | None,
    shape: tuple[int, int, int, int],
    seq_lens: torch.Tensor,
    *,
    base2: bool,
    out_dtype: torch.dtype,
    has_empty_rows: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What ``BlockKernels.decode`` returns, from what a library's decode gave.

    ``shape`` is ``(B, q_len, H, kv_lora_rank)``, ``seq_lens`` is ``[B]`` and ``base2`` says in
    which base the library counted. The output is ``[B, q_len, H, kv_lora_rank]`` in ``out_dtype``,
    the natural LSE ``[B * q_len, H]``. No device sync.
    """
    batch, q_len, heads, _ = shape
    out = out.view(shape).to(out_dtype)
    if lse is not None:
        lse = canonical_lse(lse.view(batch * q_len, heads), base2=base2)
    if has_empty_rows:
        cum_q = torch.arange(batch + 1, device=out.device, dtype=torch.int32) * q_len
        flat, lse = clear_empty_requests(out.flatten(0, 1), lse, seq_lens, cum_q)
        out = flat.view(shape)
    return out, lse
