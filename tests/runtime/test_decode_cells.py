"""The decode benchmark's arithmetic: what fits, what is counted, what the table says."""

from __future__ import annotations

import pytest

from tests.bench.decode_cells import (
    HEADER,
    QUICK,
    Cell,
    Times,
    cells_of,
    line_of,
    markdown,
    pools_of,
)

CELL = Cell(heads=16, batch=2, context=100, page=64)


def test_bytes_and_operations_are_counted_from_the_shape() -> None:
    assert (CELL.request_pages, CELL.slots) == (2, 256)
    assert CELL.pool_bytes(2) == (256 + 64) * 576 * 2
    assert CELL.layer_bytes(2) == 2 * 100 * 576 * 2 + 2 * 16 * (576 + 512) * 2
    assert CELL.layer_bytes(1) == 2 * 100 * 576 + 2 * 16 * (576 + 512) * 2
    assert CELL.layer_flops == 2 * 2 * 16 * 100 * (576 + 512)


@pytest.mark.parametrize(
    ("memory_in_pools", "l2_in_pools", "expected"),
    [(61, 9.0, 61), (200, 9.0, 61), (60, 0.25, 60), (60, 0.26, 0), (2, 0.1, 2), (1, 0.1, 0)],
)
def test_layers_rotate_over_the_pools_that_fit(
    memory_in_pools: int, l2_in_pools: float, expected: int
) -> None:
    size = CELL.pool_bytes(2)
    assert pools_of(CELL, 2, memory_in_pools * size + 1, int(l2_in_pools * size)) == expected


def test_a_grid_is_every_combination() -> None:
    assert list(cells_of([16, 128], [1], [5, 6], [64])) == [
        Cell(16, 1, 5, 64),
        Cell(16, 1, 6, 64),
        Cell(128, 1, 5, 64),
        Cell(128, 1, 6, 64),
    ]


def test_the_quick_cells_hold_the_shapes_that_have_a_target() -> None:
    cells = [Cell(*shape) for shape in QUICK]
    assert len(set(cells)) == len(cells)
    assert any(c.heads == 16 and c.batch == 256 and c.context >= 2048 for c in cells)
    assert {c.heads for c in cells if c.batch >= 64} == {16, 128}
    assert {c.page for c in cells} == {1, 64}


def test_a_row_of_the_table() -> None:
    times = Times(
        replay=2.0,
        bare_graph=1.6,
        replay_without_write=1.8,
        eager=4.0,
        bare_eager=2.0,
        planned_replay=2.1,
        planned_eager=4.2,
    )
    cell = Cell(heads=16, batch=64, context=4096, page=64)
    line = line_of(cell, 40, times, 2, copy=18_000.0, matrix=1_000.0)
    assert len(line) == len(HEADER)
    assert list(line) == [
        "16", "64", "4,096", "64", "40*", "2.000", "1.600", "1.250", "1.125",
        "9,279", "51.5%", "278", "27.8%", "0.100", "5.0%", "4.000", "2.000", "2.000", "0.200",
        "5.0%",
    ]  # fmt: skip


def test_a_markdown_table() -> None:
    assert markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
