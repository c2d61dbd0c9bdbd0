"""What a hook must have done when it returns, checked by the guard on its first call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mla_runtime.base import AttentionBackend
    from mla_runtime.protocols import ForwardBatchLike

__all__ = ["plans_every_extend_token"]


def plans_every_extend_token(self: AttentionBackend, forward_batch: ForwardBatchLike) -> bool:
    """``qo_indptr[-1]`` of the plan equals the number of extend tokens of the batch.

    A plan left from another batch is what SGLang 0.5.12 ran into: ``q.shape[0] (8218) does not
    match qo_indptr[-1] (800)``.
    """
    planned = self._planned_query_tokens()
    lens = forward_batch.extend_seq_lens_cpu
    return planned is None or lens is None or planned == sum(lens)
