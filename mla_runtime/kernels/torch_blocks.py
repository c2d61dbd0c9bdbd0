"""The torch reference of the TRT-LLM family: block tables, no plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mla_runtime.kernels import softmax
from mla_runtime.kernels.checks import check_query_tokens, check_same_length
from mla_runtime.kernels.torch_planned import ragged_attention

if TYPE_CHECKING:
    import torch

__all__ = ["TorchBlockKernels"]


class TorchBlockKernels:
    """``BlockKernels`` without a kernel library; reading a hole of a block table raises."""

    name: Literal["torch", "trtllm-gen", "cute-dsl", "tokenspeed"] = "torch"

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
        batch, q_len, heads, _ = query.shape
        check_same_length("block_tables", block_tables, batch, "the batch of the query")
        check_same_length("seq_lens", seq_lens, batch, "the batch of the query")
        page_size = kv_cache.shape[1]
        dtype = softmax.accumulation_dtype(query.dtype)
        out = query.new_empty(batch, q_len, heads, kv_lora_rank, dtype=out_dtype)
        lse = query.new_empty(batch, q_len, heads, dtype=dtype)
        for request, length in enumerate(seq_lens.tolist()):
            if length > max_seq_len:
                raise ValueError(
                    f"seq_lens[{request}]={length} exceeds max_seq_len={max_seq_len}, to which "
                    f"the launch is sized"
                )
            pages = block_tables[request, : -(-length // page_size)].long()
            if pages.numel() * page_size < length or bool((pages < 0).any()):
                raise ValueError(
                    f"block_tables[{request}] has a hole within the first {length} tokens: "
                    f"{pages.tolist()} with page_size={page_size}"
                )
            rows = kv_cache[pages].flatten(0, 1)[:length].to(dtype) * kv_scale
            request_out, lse[request] = softmax.attend(
                query[request].to(dtype),
                rows[:, None],
                rows[:, None, :kv_lora_rank],
                sm_scale,
                causal=True,
            )
            out[request] = request_out.to(out_dtype)
        return out, lse.flatten(0, 1) if return_lse else None

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
        qo_indptr, kv_indptr = cum_seq_lens_q.tolist(), cum_seq_lens_kv.tolist()
        check_query_tokens(q, qo_indptr[-1], "ragged prefill")
        check_same_length("k", k, kv_indptr[-1], "cum_seq_lens_kv[-1]")
        out, lse = ragged_attention(q, k, v, qo_indptr, kv_indptr, sm_scale, causal)
        return out, lse if return_lse else None
