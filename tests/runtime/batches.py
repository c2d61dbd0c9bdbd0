"""Random batches that reach the corners: no prefix, all prefix, page boundaries, length 1."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

__all__ = ["Composition", "compositions", "head_counts"]

_LENGTHS = st.sampled_from([0, 1, 2, 31, 32, 33, 63, 64, 65]) | st.integers(0, 100)
_NEW = st.sampled_from([1, 2, 31, 32, 33]) | st.integers(1, 40)

head_counts = st.sampled_from([1, 2, 12, 20, 64, 128]) | st.integers(1, 128)


@dataclass(frozen=True)
class Composition:
    """Cached and new tokens per request, and the capacity of a prefix chunk."""

    prefix_lens: list[int]
    q_lens: list[int]
    capacity: int


@st.composite
def compositions(draw: st.DrawFn, *, new: str = "ragged", prefix: str = "any") -> Composition:
    """``new``: ``"one"``, ``"uniform"`` or ``"ragged"``; ``prefix``: ``"none"`` or ``"any"``."""
    size = draw(st.integers(1, 6))
    lens = [0] * size
    if prefix == "any":
        lens = draw(st.lists(_LENGTHS, min_size=size, max_size=size))
    if new == "one":
        q_lens = [1] * size
    elif new == "uniform":
        q_lens = [draw(st.integers(1, 6))] * size
    else:
        q_lens = draw(st.lists(_NEW, min_size=size, max_size=size))
    # Capacities below the number of requests must still give chunks of one token.
    return Composition(lens, q_lens, draw(st.sampled_from([1, 2, 5, 24, 64, 1000])))
