"""``BlockKernels`` over FlashInfer's TRT-LLM and CuTe DSL entry points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch

from mla_runtime.kernels.capability import Capability, capability_of, require
from mla_runtime.kernels.flashinfer_library import FlashInferLibrary, accepts, load_library
from mla_runtime.kernels.lse import canonical_lse, clear_empty_requests, finish_decode
from mla_runtime.workspace import WorkspaceKind, workspace

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FlashInferBlockKernels", "counter_bytes"]

_BLACKWELL: frozenset[Capability] = frozenset({(10, 0), (10, 3)})
_MAX_BATCH = 8192
_LATENT_DIMS = ((512, 64), (256, 64))
_MHA_DIMS = ((192, 128), (128, 128), (256, 256))


def counter_bytes(batch_size: int, num_heads: int, sm_count: int) -> int:
    """Bytes of TRT-LLM's per-launch counters (``flashinfer/utils.py``, 0.6.18.post1)."""
    return 4 * (-(-max(batch_size * num_heads, sm_count) // 8) * 8)


class FlashInferBlockKernels:
    """One library of block-table kernels on one device."""

    def __init__(
        self,
        device: torch.device,
        library_name: Literal["trtllm-gen", "cute-dsl"],
        *,
        library: FlashInferLibrary | None = None,
        capability: Capability | None = None,
        sm_count: Callable[[], int] | None = None,
    ) -> None:
        """The kernels of a device.

        Raises:
            KernelUnavailableError: not an SM100 or SM103 device, or no usable library.
        """
        self.name: Literal["torch", "trtllm-gen", "cute-dsl", "tokenspeed"] = library_name
        self._device = device
        capability = capability_of(device) if capability is None else capability
        require(
            f"the {library_name} MLA decode kernel",
            capability,
            _BLACKWELL,
            "FlashInferMLAAttnBackend",
        )
        self._library = load_library() if library is None else library
        self._sm_count = sm_count or (
            lambda: torch.cuda.get_device_properties(device).multi_processor_count
        )
        self._counters: list[torch.Tensor] = []
        decode = self._library.trtllm_batch_decode_with_kv_cache_mla
        prefill = self._library.trtllm_ragged_attention_deepseek
        # TRT-LLM's kernel counts in base 2, the CuTe DSL one in base e; later releases ask.
        self._decode_base2 = library_name == "trtllm-gen"
        self._decode_options: dict[str, Any] = (
            {"return_lse_base": "base2" if self._decode_base2 else "basee"}
            if accepts(decode, "return_lse_base")
            else {}
        )
        # Empty rows are corrected here: the library's own way waits for the device.
        self._prefill_options: dict[str, Any] = (
            {"skip_all_rows_active_check": True}
            if accepts(prefill, "skip_all_rows_active_check")
            else {}
        )

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
        rope = width - kv_lora_rank
        _check_latent(self.name, heads, kv_lora_rank, rope)
        options = dict(self._decode_options) if return_lse else {}
        if self.name == "trtllm-gen":
            options["multi_ctas_kv_counter_buffer"] = self._counter_buffer(batch, heads)
        result = self._library.trtllm_batch_decode_with_kv_cache_mla(
            query=query,
            kv_cache=kv_cache,
            workspace_buffer=self._workspace(self.name),
            qk_nope_head_dim=qk_nope_head_dim,
            kv_lora_rank=kv_lora_rank,
            qk_rope_head_dim=rope,
            block_tables=block_tables,
            seq_lens=seq_lens,
            max_seq_len=max_seq_len,
            bmm1_scale=sm_scale * kv_scale,
            bmm2_scale=kv_scale,
            backend=self.name,
            return_lse=return_lse,
            **options,
        )
        out, lse = result if return_lse else (result, None)
        return finish_decode(
            out,
            lse,
            (batch, q_len, heads, kv_lora_rank),
            seq_lens,
            base2=self._decode_base2,
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
        if (q.shape[-1], v.shape[-1]) not in _MHA_DIMS:
            raise ValueError(
                f"head dims {q.shape[-1]} and {v.shape[-1]}: TRT-LLM's ragged prefill has "
                f"{list(_MHA_DIMS)}"
            )
        result = self._library.trtllm_ragged_attention_deepseek(
            query=q,
            key=k,
            value=v,
            workspace_buffer=self._workspace("trtllm-gen"),
            seq_lens=seq_lens_kv,
            max_q_len=max_q_len,
            max_kv_len=max_kv_len,
            bmm1_scale=sm_scale,
            bmm2_scale=1.0,
            o_sf_scale=1.0,
            batch_size=seq_lens_kv.shape[0],
            window_left=-1,
            cum_seq_lens_q=cum_seq_lens_q,
            cum_seq_lens_kv=cum_seq_lens_kv,
            enable_pdl=False,
            is_causal=causal,
            return_lse=return_lse,
            backend="trtllm-gen",
            **self._prefill_options,
        )
        out, lse = result if return_lse else (result, None)
        if lse is not None:
            lse = canonical_lse(lse, base2=True)
        if has_empty_rows:
            out, lse = clear_empty_requests(out, lse, seq_lens_kv, cum_seq_lens_q)
        return out, lse

    def _workspace(self, kernel: str) -> torch.Tensor:
        kind = WorkspaceKind.TRTLLM if kernel == "trtllm-gen" else WorkspaceKind.CUTE_DSL
        return workspace(self._device, kind)

    def _counter_buffer(self, batch: int, heads: int) -> torch.Tensor:
        needed = counter_bytes(max(batch, _MAX_BATCH), heads, self._sm_count())
        if not self._counters or self._counters[-1].numel() < needed:
            # Outgrown ones are kept: a captured graph counts in them.
            self._counters.append(torch.zeros(needed, dtype=torch.uint8, device=self._device))
        return self._counters[-1]


def _check_latent(kernel: str, heads: int, rank: int, rope: int) -> None:
    if kernel == "trtllm-gen":
        if (rank, rope) not in _LATENT_DIMS:
            raise ValueError(
                f"kv_lora_rank={rank}, qk_rope_head_dim={rope}: the trtllm-gen kernel has "
                f"{list(_LATENT_DIMS)}"
            )
        if heads > 64 and heads != 128:
            raise ValueError(f"{heads} heads: the trtllm-gen kernel takes up to 64, or 128")
        return
    if (rank, rope) != (512, 64) or heads > 128:
        raise ValueError(
            f"kv_lora_rank={rank}, qk_rope_head_dim={rope}, {heads} heads: the cute-dsl kernel "
            f"takes 512, 64 and up to 128 heads"
        )
