"""``BlockKernels`` over tokenspeed-mla, called by keyword only: 2.0 inserted a parameter."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal

import torch

from mla_runtime.kernels.capability import (
    Capability,
    KernelUnavailableError,
    capability_of,
    require,
)
from mla_runtime.kernels.flashinfer_library import accepts
from mla_runtime.kernels.lse import canonical_lse, clear_empty_requests, finish_decode
from mla_runtime.workspace import WorkspaceKind, workspace

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TokenspeedBlockKernels", "load_tokenspeed"]

_BLACKWELL: frozenset[Capability] = frozenset({(10, 0), (10, 3)})
_FP8 = torch.float8_e4m3fn
_MIN_SCRATCH_QUERIES = 8


def load_tokenspeed() -> Any:
    """Import tokenspeed-mla; without its own dependencies it imports, and its functions are stubs.

    Raises:
        KernelUnavailableError: not installed, or stubs only.
    """
    try:
        module = importlib.import_module("tokenspeed_mla")
    except ImportError:
        raise KernelUnavailableError(
            "tokenspeed-mla is not installed; install tokenspeed-mla, or use CuteDslMLABackend"
        ) from None
    if module.tokenspeed_mla_decode.__name__ == "_unavailable":
        reason = getattr(module, "_IMPORT_ERROR", None)
        raise KernelUnavailableError(f"tokenspeed-mla is installed without its kernels: {reason}")
    return module


class TokenspeedBlockKernels:
    """e4m3 queries over an e4m3 cache, on SM100."""

    name: Literal["torch", "trtllm-gen", "cute-dsl", "tokenspeed"] = "tokenspeed"

    def __init__(
        self,
        device: torch.device,
        *,
        library: Any = None,
        capability: Capability | None = None,
        sm_count: Callable[[], int] | None = None,
    ) -> None:
        """The kernels of a device.

        Raises:
            KernelUnavailableError: not an SM100 or SM103 device, or no usable library.
        """
        self._device = device
        capability = capability_of(device) if capability is None else capability
        require("the tokenspeed MLA kernel", capability, _BLACKWELL, "FlashInferMLAAttnBackend")
        self._library = load_tokenspeed() if library is None else library
        self._sm_count = sm_count or (lambda: int(self._library.get_num_sm(device)))

    def decode(
        self,
        query: torch.Tensor,
        kv_cache: torch.Tensor,
        block_tables: torch.Tensor,
        seq_lens: torch.Tensor,
        max_seq_len: int,
        *,
        qk_nope_head_dim: int,
        kv_lora_rank: int,
        sm_scale: float,
        kv_scale: float,
        out_dtype: torch.dtype,
        has_empty_rows: bool = False,
        return_lse: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        batch, q_len, heads, width = query.shape
        scratch = (
            self._sm_count() * heads * max(q_len, _MIN_SCRATCH_QUERIES) * (kv_lora_rank + 1) * 4
        )
        options: dict[str, Any] = {}
        if return_lse:
            if not accepts(self._library.tokenspeed_mla_decode, "return_lse"):
                raise KernelUnavailableError(
                    "this tokenspeed-mla decode returns no LSE; install 0.1.9 or later"
                )
            options["return_lse"] = True
        result = self._library.tokenspeed_mla_decode(
            query=query,
            kv_cache=kv_cache,
            workspace_buffer=workspace(self._device, WorkspaceKind.TOKENSPEED, scratch),
            kv_lora_rank=kv_lora_rank,
            qk_rope_head_dim=width - kv_lora_rank,
            block_tables=block_tables,
            seq_lens=seq_lens,
            max_seq_len=max_seq_len,
            softmax_scale=sm_scale * kv_scale,
            output_scale=kv_scale,
            causal_mask=True,
            enable_pdl=False,
            **options,
        )
        out, lse = result if return_lse else (result, None)
        return finish_decode(
            out,
            lse,
            (batch, q_len, heads, kv_lora_rank),
            seq_lens,
            base2=True,
            out_dtype=out_dtype,
            has_empty_rows=has_empty_rows,
        )

    def prefill(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        cum_seq_lens_q: torch.Tensor,
        cum_seq_lens_kv: torch.Tensor,
        seq_lens_kv: torch.Tensor,
        max_q_len: int,
        max_kv_len: int,
        causal: bool,
        sm_scale: float,
        has_empty_rows: bool,
        return_lse: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        result = self._library.tokenspeed_mla_prefill(
            query=_saturated(q),
            key=_saturated(k),
            value=_saturated(v),
            seq_lens=seq_lens_kv,
            cum_seq_lens=cum_seq_lens_kv,
            max_seq_len=max_kv_len,
            batch_size=seq_lens_kv.shape[0],
            softmax_scale=sm_scale,
            is_causal=causal,
            return_lse=return_lse,
            cum_seq_lens_q=cum_seq_lens_q,
            max_seq_len_q=max_q_len,
            enable_pdl=False,
        )
        out, lse = result if return_lse else (result, None)
        out = out.to(q.dtype)
        if lse is not None:
            lse = canonical_lse(lse, base2=False)
        if has_empty_rows:
            out, lse = clear_empty_requests(out, lse, seq_lens_kv, cum_seq_lens_q)
        return out, lse


def _saturated(x: torch.Tensor) -> torch.Tensor:
    """e4m3 of ``x``, saturated where a plain cast gives NaN."""
    limit = torch.finfo(_FP8).max
    return x.clamp(-limit, limit).to(_FP8)
