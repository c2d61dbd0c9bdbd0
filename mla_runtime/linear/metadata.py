"""What a linear backend plans per pass: its tokens, its state slots, and which hold a past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mla_runtime.lengths import query_lens
from mla_runtime.linear.sequences import Sequences
from mla_runtime.phase import Phase, phase_of

if TYPE_CHECKING:
    from mla_runtime.linear.state_pool import HybridReqToTokenPool
    from mla_runtime.protocols import ForwardBatchLike
    from mla_runtime.settings import EngineSettings

__all__ = ["LinearMetadata", "kind_of", "plan", "refill"]


@dataclass(frozen=True, slots=True)
class LinearMetadata:
    """The plan of one pass over ``B`` requests; a replay changes the contents of its tensors."""

    phase: Phase
    sequences: Sequences
    state_indices: torch.Tensor
    """State slots, int64 ``[B]``; 0 for a padding row."""
    has_initial_state: torch.Tensor
    """Whether a request has tokens before the pass, bool ``[B]``; false for a padding row."""
    verify_rows: torch.Tensor
    """Rows of the pool's verify buffers, int64 ``[B]``; 0 for a padding row."""

    @property
    def batch_size(self) -> int:
        return self.sequences.count


def kind_of(forward_batch: ForwardBatchLike) -> Phase:
    """The phase of a batch; an idle pass is a decode of padding rows."""
    phase = phase_of(forward_batch.forward_mode)
    return Phase.DECODE if phase is Phase.IDLE else phase


def plan(
    forward_batch: ForwardBatchLike, pool: HybridReqToTokenPool, settings: EngineSettings
) -> LinearMetadata:
    """The plan of a batch, without reading the device.

    Raises:
        ValueError: the batch lacks the lengths of its phase, or drafts a tree (``topk > 1``).
    """
    kind = kind_of(forward_batch)
    queries, host = query_lens(forward_batch, kind, settings)
    lens = [host] * forward_batch.batch_size if isinstance(host, int) else host.tolist()
    sequences = Sequences.of(lens, forward_batch.req_pool_indices.device)
    return LinearMetadata(kind, sequences, *_rows(forward_batch, pool, queries, sequences.tokens))


def refill(
    metadata: LinearMetadata,
    forward_batch: ForwardBatchLike,
    pool: HybridReqToTokenPool,
    settings: EngineSettings,
) -> None:
    """Put a batch of the captured size into the tensors of a captured plan.

    Raises:
        ValueError: the batch has another number of tokens per request.
    """
    queries, _ = query_lens(forward_batch, metadata.phase, settings)
    captured = metadata.sequences.longest
    if queries != captured:
        raise ValueError(
            f"the {metadata.phase.value} graph was captured with {captured} tokens per request; "
            f"the batch has {queries}"
        )
    rows = _rows(forward_batch, pool, queries, metadata.sequences.tokens)
    kept = (metadata.state_indices, metadata.has_initial_state, metadata.verify_rows)
    for buffer, value in zip(kept, rows, strict=True):
        buffer.copy_(value)


def _rows(
    forward_batch: ForwardBatchLike,
    pool: HybridReqToTokenPool,
    queries: torch.Tensor | int,
    tokens: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """State slots, whether they hold a past, and verify rows of a batch."""
    before = forward_batch.seq_lens
    if kind_of(forward_batch) is not Phase.TARGET_VERIFY:
        before = before - queries
    requests = forward_batch.req_pool_indices.long()
    padding = _padding(forward_batch, queries, tokens)
    slots = pool.get_mamba_indices(requests).long().masked_fill(padding, 0)
    rows = (requests + 1).masked_fill(padding, 0)
    return slots, (before > 0) & (slots > 0), rows


def _padding(
    forward_batch: ForwardBatchLike, queries: torch.Tensor | int, tokens: int
) -> torch.Tensor:
    """Rows without a request, bool ``[B]``: those whose tokens are written to KV slot 0.

    A padding row names some request all the same, whose state must be left alone.

    Raises:
        ValueError: not one slot per token.
    """
    if phase_of(forward_batch.forward_mode) is Phase.IDLE:
        return torch.ones_like(forward_batch.req_pool_indices, dtype=torch.bool)
    if isinstance(queries, torch.Tensor):
        return queries == 0
    loc = forward_batch.out_cache_loc
    if loc.shape[0] != tokens:
        raise ValueError(
            f"{forward_batch.forward_mode.name} batch of {forward_batch.batch_size} requests has "
            f"out_cache_loc of {loc.shape[0]} tokens; expected {tokens}"
        )
    return loc.view(forward_batch.batch_size, -1)[:, 0] == 0
