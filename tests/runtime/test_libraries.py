"""Kernel libraries that are missing, too old, broken or stubs are refused in words."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from mla_runtime import KernelUnavailableError
from mla_runtime.kernels.flashinfer_library import load_library
from mla_runtime.kernels.select import block_kernels, planned_kernels
from mla_runtime.kernels.tokenspeed_blocks import TokenspeedBlockKernels, load_tokenspeed
from tests.runtime import fake_library

CPU = torch.device("cpu")


def installed(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)


def test_flashinfer_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    with pytest.raises(KernelUnavailableError, match=r"install mla-guard\[gpu\], or use Torch"):
        load_library()


def test_flashinfer_that_is_too_old_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "0.6.13")
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    with pytest.raises(KernelUnavailableError, match=r"0\.6\.13 is not supported"):
        load_library()


def test_flashinfer_that_does_not_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.6.18.post1 with nvidia-cutlass-dsl asserts at import that torch was built with CUDA."""

    def fails(name: str) -> ModuleType:
        raise AssertionError("Torch not compiled with CUDA enabled")

    installed(monkeypatch, "0.6.18.post1")
    monkeypatch.setattr(importlib, "import_module", fails)
    with pytest.raises(KernelUnavailableError, match=r"does not import: AssertionError: Torch not"):
        load_library()


@pytest.mark.parametrize("release", ["0.6.18.post1", "0.7.4"])
def test_flashinfer_is_read_from_where_its_entry_points_are(
    monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    fake, _ = fake_library.flashinfer(release)
    modules = {
        "flashinfer.mla": SimpleNamespace(
            BatchMLAPagedAttentionWrapper=fake.BatchMLAPagedAttentionWrapper,
            trtllm_batch_decode_with_kv_cache_mla=fake.trtllm_batch_decode_with_kv_cache_mla,
            **({} if fake.MLAPlanMetadata is None else {"MLAPlanMetadata": fake.MLAPlanMetadata}),
        ),
        "flashinfer.prefill": SimpleNamespace(
            BatchPrefillWithRaggedKVCacheWrapper=fake.BatchPrefillWithRaggedKVCacheWrapper,
            trtllm_ragged_attention_deepseek=fake.trtllm_ragged_attention_deepseek,
        ),
        "flashinfer.cascade": SimpleNamespace(merge_state=fake.merge_state),
    }
    installed(monkeypatch, release)
    monkeypatch.setattr(importlib, "import_module", modules.__getitem__)
    assert load_library() == fake


def test_tokenspeed_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenspeed_mla", None)
    with pytest.raises(KernelUnavailableError, match="install tokenspeed-mla, or use CuteDsl"):
        load_tokenspeed()


def test_tokenspeed_without_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def _unavailable() -> None:
        raise ImportError

    module = SimpleNamespace(tokenspeed_mla_decode=_unavailable, _IMPORT_ERROR="no cutlass")
    monkeypatch.setitem(sys.modules, "tokenspeed_mla", module)
    with pytest.raises(KernelUnavailableError, match="without its kernels: no cutlass"):
        load_tokenspeed()


def test_tokenspeed_with_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    module, _ = fake_library.tokenspeed()
    monkeypatch.setitem(sys.modules, "tokenspeed_mla", module)
    assert load_tokenspeed() is module


@pytest.mark.parametrize("release", ["0.1.9", "2.0.4"])
def test_tokenspeed_decode_returns_a_natural_lse(release: str) -> None:
    module, _ = fake_library.tokenspeed(release)
    out, lse = decode_with_lse(TokenspeedBlockKernels(CPU, library=module, capability=(10, 0)))
    scores = QUERY[0, 0].double() @ CACHE[1:3].flatten(0, 1)[:40].double().T * 0.05
    assert torch.allclose(lse[0].double(), scores.logsumexp(-1), atol=1e-5)
    assert torch.equal(lse[1], torch.full((2,), float("-inf")))
    assert torch.equal(out[1], torch.zeros(1, 2, 512, dtype=torch.bfloat16))


def test_tokenspeed_before_0_1_9_returns_no_lse() -> None:
    def tokenspeed_mla_decode(query: torch.Tensor) -> None:
        raise AssertionError("called without an LSE to return")

    module = SimpleNamespace(tokenspeed_mla_decode=tokenspeed_mla_decode, get_num_sm=lambda d: 2)
    with pytest.raises(KernelUnavailableError, match=r"install 0\.1\.9 or later"):
        decode_with_lse(TokenspeedBlockKernels(CPU, library=module, capability=(10, 0)))


GENERATOR = torch.Generator().manual_seed(0)
QUERY = torch.randn(2, 1, 2, 576, generator=GENERATOR).to(torch.float8_e4m3fn)
CACHE = torch.randn(4, 32, 576, generator=GENERATOR).to(torch.float8_e4m3fn)


def decode_with_lse(kernels: TokenspeedBlockKernels) -> tuple[torch.Tensor, torch.Tensor]:
    out, lse = kernels.decode(
        QUERY,
        CACHE,
        torch.tensor([[1, 2], [-1, -1]], dtype=torch.int32),
        torch.tensor([40, 0], dtype=torch.int32),
        40,
        qk_nope_head_dim=128,
        kv_lora_rank=512,
        sm_scale=0.05,
        kv_scale=1.0,
        out_dtype=torch.bfloat16,
        has_empty_rows=True,
        return_lse=True,
    )
    assert lse is not None
    return out, lse


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
@pytest.mark.parametrize("library", ["planned", "trtllm-gen", "cute-dsl", "tokenspeed"])
def test_a_cuda_device_that_is_not_there(library: str) -> None:
    device = torch.device("cuda")
    with pytest.raises(KernelUnavailableError, match="sees no CUDA device"):
        planned_kernels(device) if library == "planned" else block_kernels(device, library)
