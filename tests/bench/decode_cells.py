"""What a decode step of one shape reads and computes, and how it is written into a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

LAYERS, LATENT, ROPE = 61, 512, 64
ROW = LATENT + ROPE
QUERY_BYTES = 2
"""Queries and outputs are bfloat16, whatever the cache is."""

HEADS, BATCHES, CONTEXTS, PAGES = (
    (16, 128),
    (1, 16, 64, 256),
    (1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 15, 1 << 17),
    (1, 64),
)
QUICK = (
    (16, 1, 1 << 10, 64),
    (16, 1, 1 << 17, 64),
    (16, 64, 1 << 10, 64),
    (16, 64, 1 << 12, 64),
    (16, 256, 1 << 11, 1),
    (16, 256, 1 << 11, 64),
    (16, 256, 1 << 13, 64),
    (128, 64, 1 << 12, 1),
    (128, 64, 1 << 12, 64),
    (128, 256, 1 << 11, 64),
)


@dataclass(frozen=True, order=True)
class Cell:
    """``batch`` requests of ``context`` cached tokens each, their new one included."""

    heads: int
    batch: int
    context: int
    page: int

    def __str__(self) -> str:
        return f"{self.heads} heads, batch {self.batch}, context {self.context:,}, page {self.page}"

    @property
    def request_pages(self) -> int:
        return -(-self.context // self.page)

    @property
    def slots(self) -> int:
        """Slots of one layer's pool, without its sink page."""
        return self.batch * self.request_pages * self.page

    def pool_bytes(self, itemsize: int) -> int:
        """One layer's pool, its sink page included."""
        return (self.slots + self.page) * ROW * itemsize

    def layer_bytes(self, itemsize: int) -> int:
        """What one layer must move: every cached row, the queries and the outputs, once each."""
        rows = self.batch * self.context * ROW * itemsize
        return rows + self.batch * self.heads * (ROW + LATENT) * QUERY_BYTES

    @property
    def layer_flops(self) -> int:
        """Multiplications and additions of the scores and of the weighted sum."""
        return 2 * self.batch * self.heads * self.context * (ROW + LATENT)


def pools_of(cell: Cell, itemsize: int, memory: int, l2: int) -> int:
    """Distinct pools over which ``LAYERS`` layers rotate in ``memory`` bytes.

    All of them where they fit. Else as many as do, if two do and each is at least four times the
    L2, which then holds nothing of a pool that comes again; 0 where the cell cannot be measured.
    """
    fitting = memory // cell.pool_bytes(itemsize)
    if fitting >= LAYERS:
        return LAYERS
    return 0 if fitting < 2 or cell.pool_bytes(itemsize) < 4 * l2 else fitting


def cells_of(
    heads: Sequence[int], batches: Sequence[int], contexts: Sequence[int], pages: Sequence[int]
) -> Iterator[Cell]:
    for shape in itertools.product(heads, batches, contexts, pages):
        yield Cell(*shape)


@dataclass(frozen=True)
class Times:
    """Milliseconds of a step of ``LAYERS`` layers; see the columns of ``HEADER``."""

    replay: float
    bare_graph: float
    replay_without_write: float
    eager: float
    bare_eager: float
    planned_replay: float
    planned_eager: float


HEADER = (
    "heads",
    "batch",
    "context",
    "page",
    "pools",
    "replay ms",
    "bare ms",
    "ratio",
    "without write",
    "GB/s",
    "of copy",
    "TFLOP/s",
    "of matrix",
    "exposed plan ms",
    "of step",
    "eager ms",
    "bare ms",
    "ratio",
    "exposed plan ms",
    "of step",
)


def line_of(
    cell: Cell, pools: int, times: Times, itemsize: int, copy: float, matrix: float
) -> tuple[str, ...]:
    """A row under ``HEADER``; ``copy`` in GB/s and ``matrix`` in TFLOP/s are the ceilings.

    Pools fewer than the layers carry a ``*``.
    """
    rate = LAYERS * cell.layer_bytes(itemsize) / times.replay / 1e6
    flops = LAYERS * cell.layer_flops / times.replay / 1e9
    exposed = times.planned_replay - times.replay
    exposed_eager = times.planned_eager - times.eager
    return (
        str(cell.heads),
        str(cell.batch),
        f"{cell.context:,}",
        str(cell.page),
        f"{pools}{'' if pools == LAYERS else '*'}",
        f"{times.replay:.3f}",
        f"{times.bare_graph:.3f}",
        f"{times.replay / times.bare_graph:.3f}",
        f"{times.replay_without_write / times.bare_graph:.3f}",
        f"{rate:,.0f}",
        f"{rate / copy:.1%}",
        f"{flops:,.0f}",
        f"{flops / matrix:.1%}",
        f"{exposed:.3f}",
        f"{exposed / times.replay:.1%}",
        f"{times.eager:.3f}",
        f"{times.bare_eager:.3f}",
        f"{times.eager / times.bare_eager:.3f}",
        f"{exposed_eager:.3f}",
        f"{exposed_eager / times.eager:.1%}",
    )


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
