"""The index kernel equals the torch path exactly."""

from __future__ import annotations

import pytest
import torch

from mla_runtime.indices import gather_pages, gather_slots

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

DEVICE = "cuda"


LENGTHS = pytest.mark.parametrize(
    "lens",
    [[1], [0, 5, 0, 9], [2500, 1, 0, 1024, 1025], [3] * 1100],
    ids=["one", "empty ones", "longer than a block", "more than a block of requests"],
)


@LENGTHS
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_slots_equal_the_torch_path(lens: list[int], dtype: torch.dtype) -> None:
    requests, starts = torch.randperm(1200)[: len(lens)], torch.randint(0, 60, (len(lens),))
    table = torch.randperm(1200 * 2600).to(torch.int32).view(1200, 2600)
    counts = torch.tensor(lens, dtype=dtype)
    for given in (None, starts):
        on_cpu, on_gpu = (
            gather_slots(
                table.to(device),
                requests.to(device),
                counts.to(device),
                sum(lens),
                starts=None if given is None else given.to(device),
            )
            for device in ("cpu", DEVICE)
        )
        assert torch.equal(on_gpu.cpu(), on_cpu)


@LENGTHS
@pytest.mark.parametrize(("stride", "first"), [(1, 0), (64, 0), (2, 1), (4, 0), (4, 2)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_pages_equal_the_torch_path(
    lens: list[int], stride: int, first: int, dtype: torch.dtype
) -> None:
    requests = torch.randperm(1200)[: len(lens)]
    table = torch.randperm(1200 * 2600).to(torch.int32).view(1200, 2600)
    counts = torch.tensor(lens, dtype=dtype)
    total = sum((n + stride - 1 - first) // stride for n in lens)
    results = []
    for device in ("cpu", DEVICE):
        out = torch.full((total + 3,), -5, dtype=torch.int32, device=device)
        indptr = torch.zeros(len(lens) + 1, dtype=torch.int32, device=device)
        filled = gather_pages(
            table.to(device),
            requests.to(device),
            counts.to(device),
            total,
            stride,
            first,
            indptr,
            out,
        )
        assert filled.shape == (total,)
        assert out[total:].tolist() == [-5] * 3
        results.append((out.cpu(), indptr.cpu()))
    for ours, theirs in zip(*results, strict=True):
        assert torch.equal(ours, theirs)


def test_lengths_beyond_the_host_mirror_do_not_write_beyond_the_buffer() -> None:
    table = torch.arange(100, dtype=torch.int32, device=DEVICE).view(2, 50)
    out = torch.full((20,), -5, dtype=torch.int32, device=DEVICE)
    requests, lens = torch.tensor([1, 0], device=DEVICE), torch.tensor([8, 30], device=DEVICE)
    gather_slots(table, requests, lens, 12, out=out)
    assert out.tolist() == [*range(50, 58), *range(4), *[-5] * 8]
