"""One batch as two: what two-batch overlap computes while the other half communicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mla_runtime.batch import ForwardBatch
from mla_runtime.phase import ForwardMode, Phase, phase_of

if TYPE_CHECKING:
    import torch

    from mla_runtime.protocols import ForwardBatchLike

__all__ = ["split_batch"]

_MODES = {
    Phase.EXTEND: ForwardMode.EXTEND,
    Phase.DECODE: ForwardMode.DECODE,
    Phase.IDLE: ForwardMode.IDLE,
    Phase.TARGET_VERIFY: ForwardMode.TARGET_VERIFY,
    Phase.DRAFT_EXTEND: ForwardMode.DRAFT_EXTEND_V2,
}


def split_batch(forward_batch: ForwardBatchLike) -> list[ForwardBatch]:
    """Both halves, cut between two requests; the first is empty for a single request.

    A decode or verify is cut after half of its requests, an extend where the new tokens of the two
    halves differ least.

    Raises:
        ValueError: an extend batch without its lengths on the host.
    """
    size = forward_batch.batch_size
    phase = phase_of(forward_batch.forward_mode)
    if phase in (Phase.DECODE, Phase.IDLE):
        tokens = [1] * size
    elif phase is Phase.TARGET_VERIFY:
        tokens = [forward_batch.spec_info.draft_token_num] * size
    elif forward_batch.extend_seq_lens_cpu is None:
        raise ValueError(
            f"a {forward_batch.forward_mode.name} batch without extend_seq_lens_cpu cannot be split"
        )
    else:
        tokens = list(forward_batch.extend_seq_lens_cpu)
    cut = min(range(size), key=lambda i: abs(sum(tokens[:i]) - sum(tokens[i:])), default=0)
    start = sum(tokens[:cut])
    return [
        _part(forward_batch, 0, slice(0, cut), slice(0, start)),
        _part(forward_batch, 1, slice(cut, size), slice(start, start + sum(tokens[cut:]))),
    ]


def _part(
    forward_batch: ForwardBatchLike, index: int, requests: slice, tokens: slice
) -> ForwardBatch:
    host = _cut(forward_batch.seq_lens_cpu, requests)
    prefixes, lengths = forward_batch.extend_prefix_lens_cpu, forward_batch.extend_seq_lens_cpu
    return ForwardBatch(
        forward_mode=_MODES[phase_of(forward_batch.forward_mode)],
        batch_size=requests.stop - requests.start,
        req_pool_indices=forward_batch.req_pool_indices[requests],
        seq_lens=forward_batch.seq_lens[requests],
        out_cache_loc=forward_batch.out_cache_loc[tokens],
        seq_lens_sum=0 if host is None else int(host.sum()),
        seq_lens_cpu=host,
        positions=_cut(forward_batch.positions, tokens),
        spec_info=forward_batch.spec_info,
        extend_seq_lens=_cut(forward_batch.extend_seq_lens, requests),
        extend_prefix_lens=_cut(forward_batch.extend_prefix_lens, requests),
        extend_seq_lens_cpu=None if lengths is None else list(lengths[requests]),
        extend_prefix_lens_cpu=None if prefixes is None else list(prefixes[requests]),
        tbo_child_index=index,
    )


def _cut(tensor: torch.Tensor | None, part: slice) -> torch.Tensor | None:
    return None if tensor is None else tensor[part]
