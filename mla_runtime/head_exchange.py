"""What the ranks of a decode-context-parallel group tell each other in every layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from mla_runtime.kernels.partial_states import State, merge_states, pack_state, unpack_states
from mla_runtime.kernels.softmax import accumulation_dtype

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["COMM_BACKENDS", "GatheredHeads", "HeadExchange", "sum_over_all"]

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


class HeadExchange:
    """Query heads out to all ranks of ``group``, their partial attention back to the heads' rank.

    Every rank attends with all heads of the group to the tokens that it holds. All ranks must call
    with the same number of tokens, in the same order. Everything has a static shape, so that it may
    be captured in a CUDA graph with the kernels where ``group`` is NCCL's.
    """

    def __init__(self, group: ProcessGroup, comm_backend: str) -> None:
        """``comm_backend``: ``"a2a"``, one all-to-all of packed outputs and LSEs; ``"ag"``, one
        all-gather of the same, which moves ``world`` times the bytes; ``"ag_rs"``, an all-gather of
        the LSEs and a reduce-scatter of weighted float32 outputs.

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

    def gather_heads(self, q_nope: torch.Tensor, q_pe: torch.Tensor) -> GatheredHeads:
        """Start to gather ``q_nope[T, H, nope]`` and ``q_pe[T, H, rope]`` from every rank."""
        own = torch.cat([q_nope, q_pe], dim=-1)
        everyone = own.new_empty(self.world, *own.shape)
        work = _exchange(_all_gather, everyone.flatten(0, 1), own, self.group, async_op=True)
        return GatheredHeads(everyone, work, q_nope.shape[-1])

    def combine(self, out: torch.Tensor, lse: torch.Tensor, own: State | None) -> torch.Tensor:
        """``[T, H, D]``: this rank's heads over the keys of all ranks.

        ``out[T, world * H, D]`` and natural ``lse[T, world * H]`` are all heads over this rank's
        keys; ``own``, ``([T, H, D], [T, H])``, this rank's heads over keys that no rank counted.
        Sums are formed in float32 and rounded once.
        """
        if self.comm_backend == "ag_rs":
            outs, lses = self._reduce_scatter(out, lse)
        else:
            outs, lses = self._packed(out, lse)
        return merge_states(outs, lses, own, out.dtype)

    def _packed(self, out: torch.Tensor, lse: torch.Tensor) -> State:
        tokens, heads, dim = out.shape
        sent = pack_state(out, lse, self.world)
        if self.comm_backend == "a2a":
            received = torch.empty_like(sent)
            _exchange(dist.all_to_all_single, received, sent, self.group)
        else:
            everything = sent.new_empty(self.world, *sent.shape)
            _exchange(_all_gather, everything.flatten(0, 1), sent, self.group)
            received = everything[:, self.rank]
        return unpack_states(received, tokens, heads // self.world, dim, out.dtype)

    def _reduce_scatter(self, out: torch.Tensor, lse: torch.Tensor) -> State:
        tokens, heads, dim = out.shape
        heads //= self.world
        lses = lse.new_empty(self.world, *lse.shape)
        _exchange(_all_gather, lses.flatten(0, 1), lse.contiguous(), self.group)
        total = torch.logsumexp(lses, dim=0)
        weights = torch.exp(lse - total.masked_fill(total == float("-inf"), 0.0))[..., None]
        wide = out.to(accumulation_dtype(out.dtype)).masked_fill(weights == 0.0, 0.0) * weights
        parts = wide.view(tokens, self.world, heads, dim).transpose(0, 1).contiguous()
        mine = parts.new_empty(tokens, heads, dim)
        _exchange(_reduce_scatter, mine, parts.flatten(0, 1), self.group)
        own_total = total[:, self.rank * heads : (self.rank + 1) * heads]
        return mine[None], own_total[None]


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
