"""How a cached prefix is cut, so that its expanded keys and values fit the memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mla_runtime.indices import gather_slots

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DEFAULT_CHUNK_CAPACITY", "PrefixChunks", "plan_prefix_chunks"]

DEFAULT_CHUNK_CAPACITY = 128 * 1024
"""Tokens that one chunk may hold over all requests (SGLang 0.5.23's default)."""


@dataclass(frozen=True, slots=True)
class PrefixChunks:
    """The cut of one batch's prefixes: ``C`` chunks of ``B`` requests.

    ``starts`` and ``seq_lens`` are ``[C, B]``, ``cu_seq_lens`` is ``[C, B + 1]``, all int32 on the
    batch's device; the lists have one entry per chunk and live on the host.
    """

    chunk_len: int
    starts: torch.Tensor
    seq_lens: torch.Tensor
    cu_seq_lens: torch.Tensor
    max_seq_lens: list[int]
    num_tokens: list[int]
    has_zero_kv: list[bool]

    @property
    def num_chunks(self) -> int:
        return self.starts.shape[0]

    def kv_indices(
        self, req_to_token: torch.Tensor, req_pool_indices: torch.Tensor
    ) -> list[torch.Tensor]:
        """For each chunk, the slots of its tokens, request by request: int32 ``[num_tokens]``."""
        return [
            gather_slots(
                req_to_token,
                req_pool_indices,
                self.seq_lens[chunk],
                self.num_tokens[chunk],
                starts=self.starts[chunk],
            )
            for chunk in range(self.num_chunks)
        ]


def plan_prefix_chunks(
    prefix_lens: Sequence[int],
    capacity: int = DEFAULT_CHUNK_CAPACITY,
    device: torch.device | str = "cpu",
) -> PrefixChunks:
    """Cut every prefix into pieces of ``capacity // len(prefix_lens)`` tokens, at least 1.

    With more requests than ``capacity``, a chunk holds one token of each request, and so more
    tokens than ``capacity``: the batch cannot be cut along its requests here.

    Raises:
        ValueError: no request, a negative length, or a capacity below 1.
    """
    if not prefix_lens or min(prefix_lens) < 0:
        raise ValueError(f"prefix_lens={list(prefix_lens)}; expected lengths of at least 0")
    if capacity < 1:
        raise ValueError(f"capacity={capacity}; expected at least 1 token per chunk")
    chunk_len = max(1, capacity // len(prefix_lens))
    num_chunks = -(-max(prefix_lens) // chunk_len)
    lengths = torch.tensor(prefix_lens, dtype=torch.int32)
    first = torch.arange(num_chunks, dtype=torch.int32)[:, None] * chunk_len
    starts = first.expand(-1, len(prefix_lens)).contiguous()
    seq_lens = (lengths[None, :] - starts).clamp(0, chunk_len)
    cu_seq_lens = torch.zeros(num_chunks, len(prefix_lens) + 1, dtype=torch.int32)
    cu_seq_lens[:, 1:] = seq_lens.cumsum(dim=1)
    return PrefixChunks(
        chunk_len=chunk_len,
        starts=starts.to(device),
        seq_lens=seq_lens.to(device),
        cu_seq_lens=cu_seq_lens.to(device),
        max_seq_lens=seq_lens.amax(dim=1).tolist() if num_chunks else [],
        num_tokens=seq_lens.sum(dim=1).tolist(),
        has_zero_kv=(seq_lens == 0).any(dim=1).tolist(),
    )
