"""The index kernel equals the torch path exactly."""

from __future__ import annotations

import pytest
import torch

from mla_runtime.indices import gather_slots
from mla_runtime.kv_shard import KvShard

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

DEVICE = "cuda"


@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize(
    "lens",
    [[1], [0, 5, 0, 9], [2500, 1, 0, 1024, 1025], [3] * 1100],
    ids=["one", "empty ones", "longer than a block", "more than a block of requests"],
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_it_equals_the_torch_path(lens: list[int], world: int, dtype: torch.dtype) -> None:
    shard = KvShard(world - 1, world)
    generator = torch.Generator().manual_seed(world)
    table = torch.randperm(1200 * 2600, generator=generator).to(torch.int32).view(1200, 2600)
    requests = torch.randperm(1200, generator=generator)[: len(lens)]
    counts, starts = shard.lens(torch.tensor(lens, dtype=dtype)), requests % 60 // world
    total = int(counts.sum())
    for given in (None, starts):
        indptr = torch.zeros(len(lens) + 1, dtype=torch.int32)
        expected = gather_slots(
            shard.table(table), requests, counts, total, starts=given, divisor=world, indptr=indptr
        )
        out = torch.full((total + 3,), -5, dtype=torch.int32, device=DEVICE)
        offsets = torch.zeros(len(lens) + 1, dtype=torch.int32, device=DEVICE)
        filled = gather_slots(
            shard.table(table.to(DEVICE)),
            requests.to(DEVICE),
            counts.to(DEVICE),
            total,
            starts=None if given is None else given.to(DEVICE),
            divisor=world,
            indptr=offsets,
            out=out,
        )
        assert filled.data_ptr() == out.data_ptr()
        assert torch.equal(out[:total].cpu(), expected)
        assert out[total:].tolist() == [-5] * 3
        assert torch.equal(offsets.cpu(), indptr)


def test_lengths_beyond_the_host_mirror_do_not_write_beyond_the_buffer() -> None:
    table = torch.arange(100, dtype=torch.int32, device=DEVICE).view(2, 50)
    out = torch.full((20,), -5, dtype=torch.int32, device=DEVICE)
    requests, lens = torch.tensor([1, 0], device=DEVICE), torch.tensor([8, 30], device=DEVICE)
    gather_slots(table, requests, lens, 12, out=out)
    assert out.tolist() == [*range(50, 58), *range(4), *[-5] * 8]
