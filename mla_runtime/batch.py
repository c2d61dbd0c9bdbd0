"""One forward pass, described: the package's own batch, for use without an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mla_runtime.chunked_prefix import DEFAULT_CHUNK_CAPACITY, plan_prefix_chunks
from mla_runtime.indices import gather_slots, indptr_of
from mla_runtime.phase import ForwardMode

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ForwardBatch", "VerifyInput"]


@dataclass(slots=True)
class VerifyInput:
    """The draft of a speculative step: ``draft_token_num`` tokens per request, one chain."""

    draft_token_num: int
    topk: int = 1


@dataclass
class ForwardBatch:
    """``B`` requests with ``T`` new tokens; fields as SGLang's ``ForwardBatch`` names them.

    ``seq_lens`` counts a request's tokens after this pass, except in target verify, where the
    draft tokens are not counted yet.
    """

    forward_mode: ForwardMode
    batch_size: int
    req_pool_indices: torch.Tensor
    seq_lens: torch.Tensor
    out_cache_loc: torch.Tensor
    """Slots of the new tokens, ``[T]``; 0 for padding."""
    seq_lens_sum: int = 0
    seq_lens_cpu: torch.Tensor | None = None
    positions: torch.Tensor | None = None
    spec_info: VerifyInput | None = None
    extend_seq_lens: torch.Tensor | None = None
    extend_prefix_lens: torch.Tensor | None = None
    extend_seq_lens_cpu: Sequence[int] | None = None
    extend_prefix_lens_cpu: Sequence[int] | None = None
    attn_attend_prefix_cache: bool | None = None
    mha_return_lse: bool | None = None
    mha_one_shot: bool | None = None
    num_prefix_chunks: int | None = None
    prefix_chunk_idx: int | None = None
    prefix_chunk_len: int | None = None
    prefix_chunk_starts: torch.Tensor | None = None
    prefix_chunk_seq_lens: torch.Tensor | None = None
    prefix_chunk_cu_seq_lens: torch.Tensor | None = None
    prefix_chunk_max_seq_lens: Sequence[int] | None = None
    prefix_chunk_num_tokens: Sequence[int] | None = None
    prefix_chunk_has_zero_kv: Sequence[bool] | None = None
    prefix_chunk_kv_indices: list[torch.Tensor] | None = None
    tbo_children: list[ForwardBatch] | None = None
    """The two micro-batches of a pass under two-batch overlap; None without."""
    tbo_child_index: int | None = None
    """Which of its parent's micro-batches this is; None for a whole batch."""

    @classmethod
    def extend(
        cls,
        req_pool_indices: Sequence[int],
        prefix_lens: Sequence[int],
        extend_lens: Sequence[int],
        out_cache_loc: Sequence[int],
        device: torch.device | str = "cpu",
        forward_mode: ForwardMode = ForwardMode.EXTEND,
    ) -> ForwardBatch:
        """New tokens after cached ones: prefill, chunked prefill, mixed, draft extend."""
        seq_lens = [p + e for p, e in zip(prefix_lens, extend_lens, strict=True)]
        batch = cls._of(forward_mode, req_pool_indices, seq_lens, out_cache_loc, device)
        batch.extend_prefix_lens_cpu = list(prefix_lens)
        batch.extend_seq_lens_cpu = list(extend_lens)
        batch.extend_prefix_lens = torch.tensor(prefix_lens, dtype=torch.int32, device=device)
        batch.extend_seq_lens = torch.tensor(extend_lens, dtype=torch.int32, device=device)
        batch.positions = _positions(prefix_lens, extend_lens, device)
        return batch

    @classmethod
    def decode(
        cls,
        req_pool_indices: Sequence[int],
        seq_lens: Sequence[int],
        out_cache_loc: Sequence[int],
        device: torch.device | str = "cpu",
    ) -> ForwardBatch:
        """One new token per request, counted in ``seq_lens``."""
        batch = cls._of(ForwardMode.DECODE, req_pool_indices, seq_lens, out_cache_loc, device)
        batch.positions = batch.seq_lens - 1
        return batch

    @classmethod
    def target_verify(
        cls,
        req_pool_indices: Sequence[int],
        seq_lens: Sequence[int],
        draft_token_num: int,
        out_cache_loc: Sequence[int],
        device: torch.device | str = "cpu",
    ) -> ForwardBatch:
        """``draft_token_num`` tokens per request, not counted in ``seq_lens``."""
        batch = cls._of(
            ForwardMode.TARGET_VERIFY, req_pool_indices, seq_lens, out_cache_loc, device
        )
        batch.spec_info = VerifyInput(draft_token_num)
        batch.positions = _positions(seq_lens, [draft_token_num] * len(seq_lens), device)
        return batch

    @classmethod
    def draft_extend(
        cls,
        req_pool_indices: Sequence[int],
        prefix_lens: Sequence[int],
        accepted_lens: Sequence[int],
        out_cache_loc: Sequence[int],
        device: torch.device | str = "cpu",
    ) -> ForwardBatch:
        """The draft model reads what the target accepted, ``accepted_lens`` tokens each."""
        return cls.extend(
            req_pool_indices,
            prefix_lens,
            accepted_lens,
            out_cache_loc,
            device,
            ForwardMode.DRAFT_EXTEND_V2,
        )

    @classmethod
    def idle(cls, device: torch.device | str = "cpu") -> ForwardBatch:
        """A data-parallel rank without a request."""
        return cls._of(ForwardMode.IDLE, [], [], [], device)

    @classmethod
    def _of(
        cls,
        mode: ForwardMode,
        req_pool_indices: Sequence[int],
        seq_lens: Sequence[int],
        out_cache_loc: Sequence[int],
        device: torch.device | str,
    ) -> ForwardBatch:
        host = torch.tensor(seq_lens, dtype=torch.int64)
        return cls(
            forward_mode=mode,
            batch_size=len(seq_lens),
            req_pool_indices=torch.tensor(req_pool_indices, dtype=torch.int64, device=device),
            seq_lens=host.to(device),
            out_cache_loc=torch.tensor(out_cache_loc, dtype=torch.int64, device=device),
            seq_lens_sum=sum(seq_lens),
            seq_lens_cpu=host,
        )

    def prepare_chunked_prefix_cache_info(
        self, req_to_token: torch.Tensor, capacity: int = DEFAULT_CHUNK_CAPACITY
    ) -> None:
        """Cut the prefixes into chunks, once per batch; no prefix gives 0 chunks.

        Raises:
            ValueError: the batch is not an extend batch.
        """
        if self.extend_prefix_lens_cpu is None:
            raise ValueError(f"{self.forward_mode.name} batch has no extend_prefix_lens_cpu to cut")
        if self.num_prefix_chunks is not None:
            return
        if not any(self.extend_prefix_lens_cpu):
            self.num_prefix_chunks = 0
            return
        chunks = plan_prefix_chunks(self.extend_prefix_lens_cpu, capacity, self.seq_lens.device)
        self.num_prefix_chunks = chunks.num_chunks
        self.prefix_chunk_idx = -1
        self.prefix_chunk_len = chunks.chunk_len
        self.prefix_chunk_starts = chunks.starts
        self.prefix_chunk_seq_lens = chunks.seq_lens
        self.prefix_chunk_cu_seq_lens = chunks.cu_seq_lens
        self.prefix_chunk_max_seq_lens = chunks.max_seq_lens
        self.prefix_chunk_num_tokens = chunks.num_tokens
        self.prefix_chunk_has_zero_kv = chunks.has_zero_kv
        self.prefix_chunk_kv_indices = chunks.kv_indices(req_to_token, self.req_pool_indices)

    def set_prefix_chunk_idx(self, idx: int) -> None:
        self.prefix_chunk_idx = idx

    def set_attn_attend_prefix_cache(self, attn_attend_prefix_cache: bool) -> None:
        self.attn_attend_prefix_cache = attn_attend_prefix_cache

    def fetch_mha_one_shot_kv_indices(self, req_to_token: torch.Tensor) -> torch.Tensor:
        """The slots of every token of every request, int32 ``[seq_lens_sum]``."""
        return gather_slots(req_to_token, self.req_pool_indices, self.seq_lens, self.seq_lens_sum)


def _positions(
    starts: Sequence[int], lens: Sequence[int], device: torch.device | str
) -> torch.Tensor:
    total = sum(lens)
    counts = torch.tensor(lens, dtype=torch.int64)
    first = torch.tensor(starts, dtype=torch.int64) - indptr_of(counts)[:-1]
    offsets = torch.repeat_interleave(first, counts, output_size=total)
    return (torch.arange(total) + offsets).to(device)
