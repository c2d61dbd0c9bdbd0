"""What the block-table kernels are told of a pass: pages, lengths, and where queries stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mla_runtime.indices import block_table, indptr_of
from mla_runtime.lengths import lengths_of, query_lens
from mla_runtime.padded_queries import padded_rows
from mla_runtime.phase import Phase

if TYPE_CHECKING:
    from mla_runtime.protocols import ForwardBatchLike
    from mla_runtime.settings import EngineSettings, MlaShape

__all__ = [
    "PrefillKeys",
    "TRTLLMMLADecodeMetadata",
    "TRTLLMMLAPrefillMetadata",
    "decode_metadata",
    "padded_blocks",
    "prefill_keys",
    "prefill_metadata",
]

_TOKENS_PER_BLOCK_ROW = 128
"""A block table is as wide as a whole number of this many tokens (TRT-LLM's kernel)."""


@dataclass(frozen=True, slots=True)
class TRTLLMMLAPrefillMetadata:
    """An extend pass of ``B`` requests; indptr tensors ``[B + 1]``, lengths ``[B]``, int32.

    The ``*seq_len*`` count new tokens, the ``*kv_len*`` those of the prefix too.
    """

    max_seq_len: int
    cum_seq_lens: torch.Tensor
    seq_lens: torch.Tensor
    max_kv_len: int
    cum_kv_lens: torch.Tensor
    kv_lens: torch.Tensor
    fallback_to_flashinfer_impl: bool


@dataclass(frozen=True, slots=True)
class TRTLLMMLADecodeMetadata:
    """A decode, verify or draft-extend pass of ``batch_size`` requests.

    ``block_kv_indices[B, blocks]`` and ``seq_lens_k[B]`` are int32; ``seq_lens_k`` counts as many
    keys as put a request's last padded query at the end. ``query_rows[T]`` says where each query
    token stands in the padded rectangle; None where every request has ``max_seq_len_q`` queries.
    """

    block_kv_indices: torch.Tensor
    seq_lens_k: torch.Tensor
    max_seq_len_k: int
    max_seq_len_q: int
    batch_size: int
    query_rows: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class PrefillKeys:
    """The keys of one multi-head call: ``cum_lens[B + 1]``, ``lens[B]``, int32."""

    cum_lens: torch.Tensor
    lens: torch.Tensor
    max_len: int
    causal: bool
    has_empty_rows: bool


def padded_blocks(max_seq_len: int, page_size: int) -> int:
    """Blocks of a table for ``max_seq_len`` tokens, rounded up to whole 128 tokens."""
    per_row = max(1, _TOKENS_PER_BLOCK_ROW // page_size)
    blocks = -(-max_seq_len // page_size)
    return -(-blocks // per_row) * per_row


def prefill_metadata(
    forward_batch: ForwardBatchLike, settings: EngineSettings, falls_back: bool
) -> TRTLLMMLAPrefillMetadata:
    """The lengths of an extend pass; raises as ``lengths_of``."""
    lengths = lengths_of(forward_batch, Phase.EXTEND, settings)
    new = (lengths.kv - lengths.prefix).to(torch.int32)
    return TRTLLMMLAPrefillMetadata(
        max_seq_len=int(lengths.q_cpu.max()),
        cum_seq_lens=indptr_of(new),
        seq_lens=new,
        max_kv_len=int(lengths.kv_cpu.max()),
        cum_kv_lens=indptr_of(lengths.kv),
        kv_lens=lengths.kv.to(torch.int32),
        fallback_to_flashinfer_impl=falls_back,
    )


def decode_metadata(
    forward_batch: ForwardBatchLike,
    phase: Phase,
    settings: EngineSettings,
    shape: MlaShape,
    req_to_token: torch.Tensor,
) -> TRTLLMMLADecodeMetadata:
    """The block table of an eager decode, verify or draft-extend pass; raises as ``query_lens``."""
    queries, queries_cpu = query_lens(forward_batch, phase, settings)
    max_q = int(queries_cpu.max()) if isinstance(queries_cpu, torch.Tensor) else queries_cpu
    prefix = forward_batch.seq_lens - (0 if phase is Phase.TARGET_VERIFY else queries)
    # A request whose queries are padded at the end sees its keys under a bottom-right mask only
    # if the padding counts as keys too.
    seq_lens_k = (prefix + max_q).to(torch.int32)
    host = forward_batch.seq_lens_cpu
    # Without a mirror the table is as wide as the longest context: no wait for the device.
    max_k = (shape.context_len if host is None else int(host.max())) + max_q
    rows = None
    if isinstance(queries_cpu, torch.Tensor) and bool((queries_cpu != max_q).any()):
        rows = padded_rows(queries_cpu, max_q).to(seq_lens_k.device)
    return TRTLLMMLADecodeMetadata(
        block_kv_indices=block_table(
            req_to_token,
            forward_batch.req_pool_indices,
            seq_lens_k,
            shape.page_size,
            padded_blocks(max_k, shape.page_size),
        ),
        seq_lens_k=seq_lens_k,
        max_seq_len_k=max_k,
        max_seq_len_q=max_q,
        batch_size=forward_batch.batch_size,
        query_rows=rows,
    )


def prefill_keys(
    metadata: TRTLLMMLAPrefillMetadata, forward_batch: ForwardBatchLike
) -> PrefillKeys:
    """The new tokens', a prefix chunk's, or in one shot every token's.

    Raises:
        ValueError: the batch attends a chunk that was not cut.
    """
    if not forward_batch.attn_attend_prefix_cache:
        if forward_batch.mha_one_shot:
            return PrefillKeys(
                metadata.cum_kv_lens, metadata.kv_lens, metadata.max_kv_len, True, False
            )
        return PrefillKeys(
            metadata.cum_seq_lens, metadata.seq_lens, metadata.max_seq_len, True, False
        )
    chunk = forward_batch.prefix_chunk_idx
    lens = forward_batch.prefix_chunk_seq_lens
    cum_lens = forward_batch.prefix_chunk_cu_seq_lens
    max_lens = forward_batch.prefix_chunk_max_seq_lens
    if lens is None or cum_lens is None or max_lens is None:
        raise ValueError(
            f"prefix_chunk_idx={chunk} of a prefix that was not cut: call "
            f"prepare_chunked_prefix_cache_info first"
        )
    if chunk is None or not 0 <= chunk < len(max_lens):
        raise ValueError(f"prefix_chunk_idx={chunk}; expected one of {len(max_lens)} chunks")
    empty = forward_batch.prefix_chunk_has_zero_kv
    # A batch that does not say may have empty rows: correcting none costs little.
    has_empty_rows = True if empty is None else bool(empty[chunk])
    return PrefillKeys(cum_lens[chunk], lens[chunk], max_lens[chunk], False, has_empty_rows)
