"""What the ranks of a decode-context-parallel group tell each other in every layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist

from mla_runtime.kernels.partial_states import (
    State,
    merge_states,
    pack_state,
    packed_words,
    unpack_states,
)
from mla_runtime.kernels.softmax import accumulation_dtype

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["COMM_BACKENDS", "GatheredHeads", "HeadExchange", "PartialState", "sum_over_all"]

COMM_BACKENDS = ("a2a", "ag", "ag_rs")
"""Ways to combine partial outputs; ``a2a`` and ``ag_rs`` are vLLM's (0.33.0)."""

# torch 2.13 renames two collectives and warns about the names that older releases have.
_all_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


@dataclass(frozen=True, slots=True)
class GatheredHeads:
    """The queries of all heads of a group, on their way."""

    everyone: torch.Tensor
    """``[world, T, heads, nope + rope]``, once ``work`` is done."""
    work: Any
    nope: int

    def wait(self) -> tuple[torch.Tensor, torch.Tensor]:
        """``(q_nope[T, world * heads, nope], q_pe[T, world * heads, rope])``: views of one tensor.

        The heads of rank 0 come first. A GPU waits, the host does not.
        """
        if self.work is not None:
            self.work.wait()
        tokens = self.everyone.shape[1]
        q = self.everyone.transpose(0, 1).reshape(tokens, -1, self.everyone.shape[-1])
        return q[..., : self.nope], q[..., self.nope :]


class PartialState(NamedTuple):
    """All heads of a group over one rank's keys: for the kernel to write, and to be exchanged."""

    out: torch.Tensor
    """``[T, world * H, D]``, contiguous."""
    lse: torch.Tensor
    """``[T, world * H]``, contiguous, natural."""
    packed: torch.Tensor | None
    """Both in one, where they are sent as they are."""


class HeadExchange:
    """Query heads out to all ranks of ``group``, their partial attention back to the heads' rank.

    Every rank attends with all heads of the group to the tokens that it holds. All ranks must call
    with the same number of tokens, in the same order. Everything has a static shape, so that it may
    be captured in a CUDA graph with the kernels where ``group`` is NCCL's.
    """

    def __init__(self, group: ProcessGroup, comm_backend: str) -> None:
        """``comm_backend``: ``"a2a"``, one all-to-all of packed outputs and LSEs; ``"ag"``, one
        all-gather of what the kernel wrote, ``world`` times the bytes and nothing to pack;
        ``"ag_rs"``, an all-gather of the LSEs and a reduce-scatter of weighted float32 outputs.

        Raises:
            ValueError: another ``comm_backend``.
        """
        if comm_backend not in COMM_BACKENDS:
            raise ValueError(
                f"dcp_comm_backend={comm_backend!r}; expected one of {', '.join(COMM_BACKENDS)}"
            )
        self.group = group
        self.world = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        self.comm_backend = comm_backend

    def gather_heads(self, query: torch.Tensor, nope: int) -> GatheredHeads:
        """Start to gather the contiguous ``query[T, H, nope + rope]`` of every rank."""
        everyone = query.new_empty(self.world, *query.shape)
        work = _exchange(_all_gather, everyone.flatten(0, 1), query, self.group, async_op=True)
        return GatheredHeads(everyone, work, nope)

    def partial(self, q: torch.Tensor) -> PartialState:
        """Room for the attention of ``q[T, world * H, D]`` over this rank's keys."""
        dtype = accumulation_dtype(q.dtype)
        if self.comm_backend != "ag":
            return PartialState(q.new_empty(q.shape), q.new_empty(q.shape[:2], dtype=dtype), None)
        packed = q.new_empty(1, packed_words(q.shape, q.dtype, dtype), dtype=dtype)
        outs, lses = unpack_states(packed, q.shape, q.dtype)
        return PartialState(outs[0], lses[0], packed)

    def combine(self, partial: PartialState, own: State | None) -> torch.Tensor:
        """``[T, H, D]``: this rank's heads over the keys of all ranks.

        ``own``, ``([T, H, D], [T, H])``, is this rank's heads over keys that no rank counted. Sums
        are formed in float32 and rounded once.
        """
        if self.comm_backend == "a2a":
            outs, lses = self._by_all_to_all(partial)
        elif self.comm_backend == "ag":
            outs, lses = self._by_all_gather(partial)
        else:
            outs, lses = self._by_reduce_scatter(partial)
        return merge_states(outs, lses, own, partial.out.dtype)

    def _by_all_to_all(self, partial: PartialState) -> State:
        out = partial.out
        tokens, heads, dim = out.shape
        sent = pack_state(out, partial.lse, self.world)
        received = torch.empty_like(sent)
        _exchange(dist.all_to_all_single, received, sent, self.group)
        return unpack_states(received, (tokens, heads // self.world, dim), out.dtype)

    def _by_all_gather(self, partial: PartialState) -> State:
        sent = partial.packed
        assert sent is not None
        everything = sent.new_empty(self.world, sent.shape[1])
        _exchange(_all_gather, everything, sent, self.group)
        outs, lses = unpack_states(everything, partial.out.shape, partial.out.dtype)
        own = self._own_heads(partial.out.shape[1])
        return outs[:, :, own], lses[:, :, own]

    def _own_heads(self, heads: int) -> slice:
        each = heads // self.world
        return slice(self.rank * each, (self.rank + 1) * each)

    def _by_reduce_scatter(self, partial: PartialState) -> State:
        out, lse = partial.out, partial.lse
        tokens, heads, dim = out.shape
        lses = lse.new_empty(self.world, *lse.shape)
        _exchange(_all_gather, lses.flatten(0, 1), lse, self.group)
        total = torch.logsumexp(lses, dim=0)
        weights = torch.exp(lse - total.masked_fill(total == float("-inf"), 0.0))[..., None]
        wide = out.to(accumulation_dtype(out.dtype)).masked_fill(weights == 0.0, 0.0) * weights
        parts = wide.view(tokens, self.world, -1, dim).transpose(0, 1).contiguous()
        mine = torch.empty_like(parts[0])
        _exchange(_reduce_scatter, mine, parts.flatten(0, 1), self.group)
        return mine[None], total[None, :, self._own_heads(heads)]


def sum_over_all(tensor: torch.Tensor, group: ProcessGroup) -> torch.Tensor:
    """The sum of every rank's ``tensor``, in place."""
    if not _staged(tensor, group):
        dist.all_reduce(tensor, group=group)
        return tensor
    host = tensor.cpu()
    dist.all_reduce(host, group=group)
    return tensor.copy_(host)


def _staged(tensor: torch.Tensor, group: ProcessGroup) -> bool:
    """Whether a tensor goes by way of the host: gloo has few collectives for GPU tensors."""
    return tensor.is_cuda and dist.get_backend(group) == "gloo"


def _exchange(
    collective: Any,
    received: torch.Tensor,
    sent: torch.Tensor,
    group: ProcessGroup,
    *,
    async_op: bool = False,
) -> Any:
    """Run a collective; what there is to ``wait()`` for, None for nothing."""
    if not _staged(sent, group):
        return collective(received, sent, group=group, async_op=async_op)
    host = torch.empty_like(received, device="cpu")
    collective(host, sent.cpu(), group=group)
    received.copy_(host)
    return None
