"""How the tokens of a pass divide into requests, on the device and on the host."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Sequences"]


@dataclass(frozen=True, slots=True)
class Sequences:
    """``N`` requests with ``T`` tokens, one after the other.

    The lengths are known on the host, so that nothing waits for the device; a captured graph has
    the lengths of its capture.
    """

    lens: tuple[int, ...]
    cu_seqlens: torch.Tensor
    """``[0, cumsum(lens)]``, int64 ``[N + 1]``."""
    cu_seqlens_cpu: torch.Tensor
    """The same on the host."""
    owner: torch.Tensor
    """The request of each token, int64 ``[T]``."""
    offset: torch.Tensor
    """The place of each token in its request, int64 ``[T]``."""

    @classmethod
    def of(cls, lens: Iterable[int], device: torch.device | str = "cpu") -> Sequences:
        """The sequences of ``lens`` tokens each.

        Raises:
            ValueError: a negative length.
        """
        lens = tuple(int(n) for n in lens)
        if any(n < 0 for n in lens):
            raise ValueError(f"lens={list(lens)}; expected no negative number of tokens")
        cu_seqlens = torch.tensor([0, *accumulate(lens)], dtype=torch.int64)
        owner = torch.repeat_interleave(torch.arange(len(lens)), cu_seqlens.diff())
        offset = torch.arange(owner.shape[0]) - cu_seqlens[owner]
        return cls(lens, cu_seqlens.to(device), cu_seqlens, owner.to(device), offset.to(device))

    @property
    def count(self) -> int:
        return len(self.lens)

    @property
    def tokens(self) -> int:
        return self.owner.shape[0]

    @property
    def longest(self) -> int:
        return max(self.lens, default=0)
