"""An e4m3 cache with a scale per token: who reads it, and who says that it does not."""

from __future__ import annotations

import pytest
import torch

from mla_runtime import AttentionForm, ForwardMode, TorchMLABackend, TRTLLMMLABackend
from mla_runtime.dense_reference import relative_error
from mla_runtime.flashinfer_mla import FlashInferMLAAttnBackend
from mla_runtime.kernels.protocol import PagedPlan
from mla_runtime.kernels.torch_planned import TorchPagedMla
from tests.runtime.test_adapters import LATENT_512, MODES, planned
from tests.runtime.world import FP8, World


@pytest.mark.parametrize("mode", ["decode", "paged extend", "verify", "draft extend"])
@pytest.mark.parametrize("page_size", [1, 32])
def test_the_reference_multiplies_each_row_by_its_own(mode: str, page_size: int) -> None:
    world = World(kv_dtype=FP8, kv_scale=None, page_size=page_size, pages=512 // page_size)
    forward_mode, prefix_lens, q_lens, form = MODES[mode]
    one_pass = world.pass_of(forward_mode, prefix_lens, q_lens)
    out = one_pass.run(TorchMLABackend(world.runner), form)
    expected = one_pass.expected(prefix_from_pool=True, new_from_pool=True)
    assert relative_error(out, expected) <= 1e-5


def test_a_prefix_is_expanded_with_the_scales_of_its_tokens() -> None:
    world = World(kv_dtype=FP8, kv_scale=None)
    one_pass = world.pass_of(ForwardMode.EXTEND, [0, 7, 64], [5, 1, 33])
    out = one_pass.run(TorchMLABackend(world.runner), AttentionForm.MHA_CHUNKED_KV, capacity=24)
    assert relative_error(out, one_pass.expected(prefix_from_pool=True)) <= 1e-5


def test_flashinfers_paged_kernel_takes_one_scale() -> None:
    world = World(config=LATENT_512, dtype=torch.bfloat16, kv_dtype=FP8, kv_scale=None)
    one_pass = world.pass_of(ForwardMode.DECODE, [5, 31], [1, 1])
    backend = FlashInferMLAAttnBackend(world.runner, kernels=planned()[0])
    with pytest.raises(ValueError, match="scales per token, and this kernel takes one per layer"):
        one_pass.run(backend)


def test_block_kernels_take_one_scale() -> None:
    world = World(kv_dtype=FP8, kv_scale=None)
    one_pass = world.pass_of(ForwardMode.DECODE, [5, 31], [1, 1])
    with pytest.raises(ValueError, match="scales per token, and this kernel takes one per layer"):
        one_pass.run(TRTLLMMLABackend(world.runner))


def test_pages_of_several_rows_have_a_scale_per_row() -> None:
    cache, scales = torch.randn(6, 4, 40), torch.rand(24) + 0.5
    q = torch.randn(2, 3, 40)
    outs = []
    for rows, scale in ((cache, scales), (cache * scales.view(6, 4, 1), 1.0)):
        kernel = TorchPagedMla()
        kernel.plan(
            PagedPlan(
                qo_indptr=torch.tensor([0, 1, 2], dtype=torch.int32),
                kv_indptr=torch.tensor([0, 2, 3], dtype=torch.int32),
                kv_indices=torch.tensor([5, 1, 3], dtype=torch.int32),
                kv_len=torch.tensor([7, 2]),
                num_heads=3,
                head_dim_ckv=32,
                head_dim_kpe=8,
                page_size=4,
                causal=False,
                sm_scale=0.2,
                q_dtype=torch.float32,
                kv_dtype=torch.float32,
            )
        )
        out, _ = kernel.run(
            q[..., :32], q[..., 32:], rows[..., :32], rows[..., 32:], kv_scale=scale
        )
        outs.append(out)
    torch.testing.assert_close(*outs)
