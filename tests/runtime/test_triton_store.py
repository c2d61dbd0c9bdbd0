"""The fused store writes what the torch path writes, byte for byte."""

from __future__ import annotations

import pytest
import torch

from mla_runtime import MlaKvPool, MlaModelConfig
from tests.runtime.world import FP8

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

LAYER = MlaModelConfig(num_attention_heads=1).absorbed_layer(0)


@pytest.mark.parametrize("source", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        (torch.bfloat16, {}),
        (FP8, {"kv_scales": [0.03]}),
        (FP8, {"scale_per_token": True}),
        (torch.float8_e5m2, {"kv_scales": [0.5]}),
    ],
    ids=["bf16", "e4m3, a scale per layer", "e4m3, a scale per token", "e5m2"],
)
def test_a_store_on_the_gpu_equals_one_on_the_cpu(
    source: torch.dtype, dtype: torch.dtype, options: dict[str, object]
) -> None:
    pools = [
        MlaKvPool(128, 64, 512, 64, 1, dtype, device=device, **options)  # type: ignore[arg-type]
        for device in ("cpu", "cuda")
    ]
    rows = torch.randn(40, 1, 576) * 10.0 ** torch.linspace(-4, 3, 40)[:, None, None]
    rows[3] = 0.0
    rows = rows.to(source)
    loc = torch.randperm(128)[:40] + 64
    for pool in pools:
        device = pool.kv_buffer[0].device
        on = rows.to(device)
        pool.set_mla_kv_buffer(LAYER, loc.to(device), on[..., :512], on[..., 512:])
    cpu, gpu = (pool.kv_buffer[0].cpu() for pool in pools)
    assert torch.equal(cpu.view(torch.uint8), gpu.view(torch.uint8))
    if pools[0].token_scales is not None and pools[1].token_scales is not None:
        assert torch.equal(pools[0].token_scales[0], pools[1].token_scales[0].cpu())


def test_rows_that_are_quantised_already_are_copied() -> None:
    pool = MlaKvPool(128, 64, 512, 64, 1, FP8, device="cuda", kv_scales=[0.03])
    rows = torch.randn(3, 1, 576, device="cuda").to(FP8)
    loc = torch.tensor([70, 64, 191], device="cuda")
    pool.set_mla_kv_buffer(LAYER, loc, rows[..., :512], rows[..., 512:])
    assert torch.equal(pool.kv_buffer[0][loc], rows.view(torch.uint8))


def test_rows_that_lie_otherwise_are_stored_as_well() -> None:
    pool = MlaKvPool(128, 64, 512, 64, 1, torch.bfloat16, device="cuda")
    loc = torch.arange(70, 110, device="cuda")
    for width, start in ((576, 0), (577, 1), (576, 0), (592, 8), (578, 2)):
        wide = torch.randn(40, 1, width, device="cuda").bfloat16()
        rows = wide[..., start : start + 576]
        pool.set_mla_kv_buffer(LAYER, loc, rows[..., :512], rows[..., 512:])
        assert torch.equal(pool.kv_buffer[0][loc], rows)
        pool.set_mla_kv_buffer(LAYER, loc.int(), rows[..., :512] * 2, rows[..., 512:] * 2)
        assert torch.equal(pool.kv_buffer[0][loc], rows * 2)
