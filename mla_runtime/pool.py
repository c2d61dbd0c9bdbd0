"""Where the latent rows live: the paged MLA KV pool and the map from tokens to its slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mla_runtime.fp8 import FP8_DTYPES, row_scales, stored_rows
from mla_runtime.kv_shard import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mla_runtime.protocols import LayerLike

__all__ = ["MlaKvPool", "ReqToTokenPool", "SlotAllocator"]


class MlaKvPool:
    """Latent and rope rows of every layer, ``[size + page_size, 1, kv_lora_rank + rope]`` each.

    Slot 0 takes the writes of padding tokens; page 0 is never handed out. An fp8 pool stores
    ``value / scale``, saturated, and its readers multiply by the scale again; scales are per layer,
    or per token: found on writing, kept in ``token_scales``, float32 ``[size + page_size]`` each.
    Layout per SGLang's ``MLATokenToKVPool`` (0.5.23, ``mem_cache/memory_pool.py``), which stores a
    plain cast.
    """

    shard = WHOLE
    """Which slots are written here, and in which rows."""

    def __init__(
        self,
        size: int,
        page_size: int,
        kv_lora_rank: int,
        qk_rope_head_dim: int,
        layer_num: int,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        kv_scales: Sequence[float] | None = None,
        scale_per_token: bool = False,
    ) -> None:
        """A zeroed pool for ``size`` tokens.

        Raises:
            ValueError: ``size`` is not a multiple of ``page_size``; scales without an fp8 dtype,
                not one per layer, not positive, or both per layer and per token.
        """
        if page_size < 1 or size % page_size:
            raise ValueError(f"size={size} must be a multiple of page_size={page_size}")
        if kv_scales is not None and dtype not in FP8_DTYPES:
            raise ValueError(f"kv_scales are for an fp8 pool; dtype is {dtype}")
        if scale_per_token and (kv_scales is not None or dtype not in FP8_DTYPES):
            raise ValueError(
                f"scale_per_token is for an fp8 pool without kv_scales; dtype is {dtype}, "
                f"kv_scales={kv_scales}"
            )
        scales = [1.0] * layer_num if kv_scales is None else [float(s) for s in kv_scales]
        if len(scales) != layer_num or any(not s > 0.0 for s in scales):
            raise ValueError(f"kv_scales={scales}; expected {layer_num} positive numbers")
        self.size = size
        self.page_size = page_size
        self.kv_lora_rank = kv_lora_rank
        self.qk_rope_head_dim = qk_rope_head_dim
        self.dtype = dtype
        self.kv_scales = scales
        row = kv_lora_rank + qk_rope_head_dim
        # Indexed writes into fp8 tensors are not implemented on every device; bytes are.
        self._store_dtype = torch.uint8 if dtype in FP8_DTYPES else dtype
        self.kv_buffer = [
            torch.zeros(size + page_size, 1, row, dtype=self._store_dtype, device=device)
            for _ in range(layer_num)
        ]
        self.token_scales: list[torch.Tensor] | None = None
        if scale_per_token:
            self.token_scales = [
                torch.ones(size + page_size, dtype=torch.float32, device=device)
                for _ in range(layer_num)
            ]

    def kv_scale(self, layer_id: int) -> float | torch.Tensor:
        """What a stored value of this layer is to be multiplied by: one number, or one per row."""
        if self.token_scales is not None:
            return self.token_scales[layer_id]
        return self.kv_scales[layer_id]

    def set_kv_buffer(
        self,
        layer: LayerLike,
        loc: torch.Tensor,
        cache_k: torch.Tensor,
        cache_v: torch.Tensor,
    ) -> None:
        """Write combined rows ``cache_k[n, 1, kv_lora_rank + rope]`` at slots ``loc[n]``.

        ``cache_v`` is the latent part of the same rows and is not stored twice.
        """
        rows = cache_k.reshape(-1, 1, self.kv_lora_rank + self.qk_rope_head_dim)
        rank = self.kv_lora_rank
        self.set_mla_kv_buffer(layer, loc, rows[..., :rank], rows[..., rank:])

    def set_mla_kv_buffer(
        self,
        layer: LayerLike,
        loc: torch.Tensor,
        cache_k_nope: torch.Tensor,
        cache_k_rope: torch.Tensor,
    ) -> None:
        """Write latent ``[n, 1, kv_lora_rank]`` and rope ``[n, 1, rope]`` parts at ``loc[n]``.

        Raises:
            ValueError: not one row per slot, or quantised rows for a pool with scales per token.
        """
        nope = cache_k_nope.reshape(-1, 1, self.kv_lora_rank)
        rope = cache_k_rope.reshape(-1, 1, self.qk_rope_head_dim)
        self._check_loc(loc, nope)
        self._check_loc(loc, rope)
        scale = self.kv_scale(layer.layer_id)
        if self.token_scales is not None and nope.dtype == self.dtype:
            raise ValueError(
                f"rows of {nope.dtype} for a pool with scales per token, which come from the rows "
                f"before they are quantised; expected a wider dtype"
            )
        buffer = self.get_key_buffer(layer.layer_id)
        if buffer.is_cuda:
            from mla_runtime.kernels.triton_store import store_rows

            store_rows(buffer, loc, nope, rope, self.shard, scale)
            return
        rows = self.shard.written_rows(loc)
        if isinstance(scale, torch.Tensor):
            kept, scale = scale, row_scales(nope, rope, self.dtype)
            kept[rows] = scale[:, 0, 0]
        encoded = [stored_rows(part, self.dtype, scale) for part in (nope, rope)]
        self.kv_buffer[layer.layer_id][rows] = torch.cat(encoded, dim=-1).view(self._store_dtype)

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        """All rows of a layer as stored, in the pool's dtype; a view."""
        buffer = self.kv_buffer[layer_id]
        return buffer if self._store_dtype == self.dtype else buffer.view(self.dtype)

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        """The latent part of ``get_key_buffer``; a view."""
        return self.get_key_buffer(layer_id)[..., : self.kv_lora_rank]

    def get_mla_kv_buffer(
        self, layer: LayerLike, loc: torch.Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gather latent ``[n, 1, kv_lora_rank]`` and rope ``[n, 1, rope]``, dequantised."""
        stored = self.kv_buffer[layer.layer_id][loc]
        if self._store_dtype != self.dtype:
            scale = self.kv_scale(layer.layer_id)
            if isinstance(scale, torch.Tensor):
                scale = scale[loc][:, None, None]
            scaled = stored.view(self.dtype).to(torch.float32) * scale
            rows = scaled.to(dst_dtype or torch.bfloat16)
        else:
            rows = stored.to(dst_dtype or self.dtype)
        return rows[..., : self.kv_lora_rank], rows[..., self.kv_lora_rank :]

    def _check_loc(self, loc: torch.Tensor, rows: torch.Tensor) -> None:
        if loc.shape[0] != rows.shape[0]:
            raise ValueError(
                f"{rows.shape[0]} rows for {loc.shape[0]} slots: loc must name one slot per token"
            )


class ReqToTokenPool:
    """``req_to_token[size, max_context_len]`` int32: the slot of each token of each request."""

    def __init__(self, size: int, max_context_len: int, device: torch.device | str = "cpu") -> None:
        self.size = size
        self.max_context_len = max_context_len
        self.req_to_token = torch.zeros(size, max_context_len, dtype=torch.int32, device=device)


class SlotAllocator:
    """Hands out whole pages; a request's token at position ``p`` has offset ``p % page_size``."""

    def __init__(self, size: int, page_size: int, order: Sequence[int] | None = None) -> None:
        """Pages 1 to ``size // page_size``, in that order or in ``order`` (scattered pages)."""
        self.page_size = page_size
        self._free = list(range(1, size // page_size + 1)) if order is None else list(order)
        self._free.reverse()

    def extend(self, slots: Sequence[int], length: int) -> list[int]:
        """The slots of a request that grows to ``length`` tokens; full pages stay where they are.

        Raises:
            MemoryError: not enough free pages.
        """
        grown = list(slots)
        while len(grown) < length:
            offset = len(grown) % self.page_size
            if offset == 0 and not self._free:
                raise MemoryError(
                    f"no free page left for token {len(grown)} of a request of {length} tokens"
                )
            grown.append(self._free.pop() * self.page_size if offset == 0 else grown[-1] + 1)
        return grown

    def free(self, slots: Sequence[int]) -> None:
        """Take back every page of which ``slots`` holds the first token."""
        self._free.extend(s // self.page_size for s in slots if s % self.page_size == 0)
