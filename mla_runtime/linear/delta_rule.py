"""The gated delta rule: one recurrence and one chunked form for every linear attention here.

A head keeps a matrix ``S[K, V]``. With the decay ``a_t`` (one number, or one per key channel) and
the write strength ``b_t``::

    S_t = (I - b_t k_t k_t^T) Diag(a_t) S_{t-1} + b_t k_t v_t^T        o_t = scale * S_t^T q_t

* lightning attention: no ``b`` (nothing is erased, ``v`` is written as it is), ``a`` constant per
  head; Lightning Attention-2, arXiv:2401.04658;
* Gated DeltaNet: ``a`` per head and token; arXiv:2412.06464;
* KDA: ``a`` per key channel and token; Kimi Linear, arXiv:2510.26692.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import torch

from mla_runtime.linear.precision import wide

if TYPE_CHECKING:
    from mla_runtime.linear.sequences import Sequences

__all__ = ["CHUNK", "DeltaInputs", "chunked", "recurrent"]

CHUNK = 64
"""Tokens whose mutual terms the chunked form solves at once."""


@dataclass(frozen=True, slots=True)
class DeltaInputs:
    """One layer's inputs for ``T`` tokens, convolved, normalised and gated.

    ``q[T, H, K]`` and ``k[T, H, K]`` of the key heads, ``v[T, H_v, V]`` with ``H_v`` a multiple of
    ``H``: consecutive value heads share a key head. ``log_decay[T, H_v, 1]`` or ``[T, H_v, K]`` is
    not positive; ``beta[T, H_v]`` or None.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    log_decay: torch.Tensor
    beta: torch.Tensor | None
    scale: float

    def per_value_head(self, x: torch.Tensor) -> torch.Tensor:
        """``q`` or ``k`` repeated for the value heads that share it: ``[T, H_v, K]``."""
        shared = self.v.shape[1] // x.shape[1]
        return x if shared == 1 else x.repeat_interleave(shared, dim=1)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """``M`` equally long runs of tokens, ``[M, H_v, C, ...]``, padded by tokens without effect."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    log_decay: torch.Tensor
    beta: torch.Tensor | None

    @classmethod
    def gather(
        cls, inputs: DeltaInputs, first: torch.Tensor, end: torch.Tensor, length: int
    ) -> _Blocks:
        """``length`` tokens from ``first[M]`` on, those from ``end[M]`` on being padding."""
        rows = first[:, None] + torch.arange(length, device=first.device)
        padding = (rows >= end[:, None])[:, :, None, None]
        rows = rows.clamp(max=inputs.v.shape[0] - 1)

        def take(x: torch.Tensor) -> torch.Tensor:
            # A zero key writes nothing and a zero log-decay keeps everything.
            return wide(x)[rows].masked_fill(padding, 0.0).transpose(1, 2)

        beta = inputs.beta
        return cls(
            take(inputs.per_value_head(inputs.q)) * inputs.scale,
            take(inputs.per_value_head(inputs.k)),
            take(inputs.v),
            take(inputs.log_decay),
            None if beta is None else take(beta[:, :, None]),
        )


def recurrent(
    inputs: DeltaInputs,
    initial: torch.Tensor,
    sequences: Sequences,
    *,
    every_state: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Token by token: ``(out[T, H_v, V], final[N, H_v, K, V], states)``.

    ``initial[N, H_v, K, V]``. ``states[N, L, H_v, K, V]``, if asked, is the state after each of the
    first ``L`` tokens, ``L`` the longest request; after a request's last token it stays. No shape
    depends on device data, so that the operations may be captured. ``out`` is in the dtype of
    ``v``; states are float32, or float64 where the inputs are.
    """
    state = wide(initial)
    length = sequences.longest
    if length == 0:
        out = inputs.v.new_empty(inputs.v.shape)
        return out, state, state[:, None][:, :0] if every_state else None
    cu = sequences.cu_seqlens
    x = _Blocks.gather(inputs, cu[:-1], cu[1:], length)
    outs, states = [], []
    for t in range(length):
        k = x.k[:, :, t, :, None]
        state = x.log_decay[:, :, t, :, None].exp() * state
        written = x.v[:, :, t, None, :]
        if x.beta is not None:
            written = x.beta[:, :, t, None, :] * (written - k.mT @ state)
        state = state + k * written
        outs.append((x.q[:, :, t, None, :] @ state)[:, :, 0])
        if every_state:
            states.append(state)
    out = torch.stack(outs, dim=1)[sequences.owner, sequences.offset]
    return out.to(inputs.v.dtype), state, torch.stack(states, dim=1) if every_state else None


def chunked(
    inputs: DeltaInputs, initial: torch.Tensor, sequences: Sequences, *, chunk: int = CHUNK
) -> tuple[torch.Tensor, torch.Tensor]:
    """``chunk`` tokens at a time: ``(out[T, H_v, V], final[N, H_v, K, V])``, as ``recurrent``.

    Within a chunk, what token ``i`` writes depends on the chunk's earlier writes through a unit
    lower triangular matrix, which is solved (the UT transform of arXiv:2412.06464, section 3.3).
    Decays between two tokens are exponentials of sums of the log-decays between them, never
    differences of prefix sums and never positive: nothing overflows, and a strong decay does not
    swallow the weak ones after it.
    """
    state = wide(initial).clone()
    longest = sequences.longest
    if longest == 0:
        return inputs.v.new_empty(inputs.v.shape), state
    size = min(chunk, longest)
    device = inputs.v.device
    active = [
        [n for n, length in enumerate(sequences.lens) if length > start]
        for start in range(0, longest, size)
    ]
    request = torch.tensor([n for rows in active for n in rows], device=device)
    number = torch.tensor([c for c, rows in enumerate(active) for _ in rows], device=device)
    cu = sequences.cu_seqlens
    x = _Blocks.gather(inputs, cu[request] + number * size, cu[request + 1], size)

    from_start = x.log_decay.cumsum(-2).exp()
    to_end = _sums_of_later(x.log_decay).exp()
    seen = _decayed_products(x.q, x.k, x.log_decay)
    fresh, erased = x.v, None
    if x.beta is not None:
        lower = x.beta * _decayed_products(x.k, x.k, x.log_decay).tril(-1)
        right = torch.cat([x.beta * x.v, x.beta * from_start * x.k], dim=-1)
        solved = torch.linalg.solve_triangular(
            lower + torch.eye(size, dtype=lower.dtype, device=device),
            right,
            upper=False,
            unitriangular=True,
        )
        fresh, erased = solved.split([x.v.shape[-1], x.k.shape[-1]], dim=-1)
    q_start, k_end = x.q * from_start, x.k * to_end
    kept = from_start[:, :, -1, :, None]

    outs = []
    for end, count in zip(accumulate(map(len, active)), map(len, active), strict=True):
        here = slice(end - count, end)
        rows = request[here]
        before = state[rows]
        written = fresh[here] if erased is None else fresh[here] - erased[here] @ before
        outs.append(q_start[here] @ before + seen[here] @ written)
        state[rows] = kept[here] * before + k_end[here].mT @ written
    block = torch.zeros(sequences.count, len(active), dtype=torch.int64, device=device)
    block[request, number] = torch.arange(request.shape[0], device=device)
    offset = sequences.offset
    out = torch.cat(outs)[block[sequences.owner, offset // size], :, offset % size]
    return out.to(inputs.v.dtype), state


def _sums_of_later(log_decay: torch.Tensor) -> torch.Tensor:
    """Per token the sum over the tokens after it, along dimension -2."""
    after = torch.nn.functional.pad(log_decay[..., 1:, :], (0, 0, 0, 1))
    return after.flip(-2).cumsum(-2).flip(-2)


def _decayed_products(x: torch.Tensor, k: torch.Tensor, log_decay: torch.Tensor) -> torch.Tensor:
    """``[.., i, j]`` the product of ``x_i`` and ``k_j``, decayed from ``j`` to ``i >= j``.

    Zero above the diagonal.
    """
    length = x.shape[-2]
    if log_decay.shape[-1] == 1:
        between = log_decay.expand(*log_decay.shape[:-1], length).tril(-1).cumsum(-2)
        return (x @ k.mT * between.exp()).tril()
    columns = []
    for j in range(length):
        between = torch.nn.functional.pad(log_decay[..., j + 1 :, :], (0, 0, 1, 0)).cumsum(-2)
        column = (x[..., j:, :] * between.exp() * k[..., j : j + 1, :]).sum(-1)
        columns.append(torch.nn.functional.pad(column, (j, 0)))
    return torch.stack(columns, dim=-1)
