"""``PagedMla`` for one query token per request over an e4m3 cache on SM90."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import torch

from mla_runtime.kernels.checks import check_paged_plan, check_query_tokens, one_scale
from mla_runtime.kernels.protocol import PagedPlan, host_or_copy

if TYPE_CHECKING:
    from mla_runtime.kernels.capability import Capability
    from mla_runtime.kernels.protocol import GraphBuffers

__all__ = ["Fp8DecodeMla", "SplitBuffers", "row_stride", "serves"]

_RANK, _ROPE = 512, 64
_MOST_REQUESTS = 1024
_TILE = 64
_LOG2_E = 1.4426950408889634


def serves(plan: PagedPlan, capability: Capability) -> bool:
    """Whether this kernel takes the place of FlashInfer's, which reads e4m3 more slowly.

    The kernel is written in Gluon as Triton 3.6 has it, an experimental language that minor
    releases change: with another Triton, FlashInfer's kernel stays.
    """
    return (
        capability == (9, 0)
        and plan.kv_dtype == torch.float8_e4m3fn
        and plan.q_dtype in (torch.bfloat16, torch.float16)
        and (plan.head_dim_ckv, plan.head_dim_kpe) == (_RANK, _ROPE)
        and plan.kv_len.shape[0] <= _MOST_REQUESTS
        and _one_query_each(plan)
        and _has_gluon()
    )


@cache
def _has_gluon() -> bool:
    try:
        return version("triton").startswith("3.6.")
    except PackageNotFoundError:
        return False


def _one_query_each(plan: PagedPlan) -> bool:
    qo_indptr = host_or_copy(plan.qo_indptr, plan.qo_indptr_cpu)
    return bool((qo_indptr[1:] - qo_indptr[:-1] == 1).all())


@dataclass(frozen=True, slots=True)
class SplitBuffers:
    """What runs read and write besides their arguments; in graph mode at fixed addresses.

    ``batch_info[3, B + 1]`` int32: first tiles, first indices and lengths; ``kv_indices`` int32;
    ``part_out[2 * shares, H, 512]`` and ``part_lse[2 * shares, H]`` float32, the latter in base 2.
    """

    batch_info: torch.Tensor
    kv_indices: torch.Tensor
    part_out: torch.Tensor
    part_lse: torch.Tensor


class Fp8DecodeMla:
    """One planner. A plan numbers the tiles of its batch on the device and waits for nothing; runs
    of one batch size may be captured, and read what the last plan left.

    Sums are of e4m3 products in the tensor cores' own precision; queries and weights keep eight
    bits, as two e4m3 pieces. Errors against float64 are those of a bfloat16 kernel.
    """

    def __init__(self, device: torch.device, graph_buffers: GraphBuffers | None = None) -> None:
        self._shares = torch.cuda.get_device_properties(device).multi_processor_count
        self._plan: PagedPlan | None = None
        self._graph_indices = None if graph_buffers is None else graph_buffers.kv_indices
        self._buffers: SplitBuffers | None = None

    @property
    def graph_buffers(self) -> SplitBuffers | None:
        """What a captured run reads, where the planner was made for a graph."""
        return None if self._graph_indices is None else self._buffers

    def plan(self, plan: PagedPlan) -> None:
        """Prepare runs over one batch that ``serves`` took.

        Raises:
            ValueError: the metadata contradict each other.
        """
        from mla_runtime.kernels.triton_shares import number_tiles

        check_paged_plan(plan, *plan.on_host())
        batch = plan.kv_len.shape[0]
        self._buffers = buffers = self._buffers_for(plan, self._buffers)
        number_tiles[(1,)](
            plan.kv_len,
            plan.kv_indptr,
            buffers.batch_info,
            batch,
            buffers.batch_info.stride(0),
            tile=_TILE,
            most_requests=_MOST_REQUESTS,
        )
        self._plan = plan

    def _buffers_for(self, plan: PagedPlan, last: SplitBuffers | None) -> SplitBuffers:
        """Those of the last plan as far as they fit."""
        indices = plan.kv_indices
        if self._graph_indices is not None:
            if indices.data_ptr() != self._graph_indices.data_ptr():
                self._graph_indices[: indices.shape[0]].copy_(indices)
            indices = self._graph_indices
        rows = (3, plan.kv_len.shape[0] + 1)
        parts = (2 * self._shares, plan.num_heads)
        if last is None or last.part_lse.shape != parts:
            part_out = indices.new_empty((*parts, _RANK), dtype=torch.float32)
            part_lse = indices.new_empty(parts, dtype=torch.float32)
        else:
            part_out, part_lse = last.part_out, last.part_lse
        if last is None or last.batch_info.shape != rows:
            batch_info = indices.new_empty(rows)
        else:
            batch_info = last.batch_info
        return SplitBuffers(batch_info, indices, part_out, part_lse)

    def run(
        self,
        q_nope: torch.Tensor,
        q_pe: torch.Tensor,
        ckv: torch.Tensor,
        kpe: torch.Tensor,
        *,
        kv_scale: float | torch.Tensor = 1.0,
        into: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        from mla_runtime.kernels.gluon_fp8_decode import decode
        from mla_runtime.kernels.triton_shares import combine

        plan, buffers = self._plan, self._buffers
        if plan is None or buffers is None:
            raise RuntimeError("run before plan: the paged MLA kernel has no batch yet")
        batch, heads = plan.kv_len.shape[0], plan.num_heads
        check_query_tokens(q_nope, batch, "paged MLA")
        row, scale = row_stride(ckv, kpe), one_scale(kv_scale)
        q_nope, q_pe = (q if q.stride(-1) == 1 else q.contiguous() for q in (q_nope, q_pe))
        if into is None:
            out = q_nope.new_empty(q_nope.shape)
            lse = buffers.part_lse.new_empty(batch, heads) if plan.return_lse else None
        else:
            out, lse = into
        sums = buffers.part_lse if lse is None else lse
        block = 16 if heads <= 16 else 32
        blocks = -(-heads // block)
        shares = max(1, self._shares // blocks)
        decode[(blocks, shares)](
            q_nope,
            q_pe,
            ckv,
            buffers.kv_indices,
            buffers.batch_info,
            out,
            sums,
            buffers.part_out,
            buffers.part_lse,
            plan.sm_scale * scale * _LOG2_E,
            scale,
            batch,
            buffers.batch_info.stride(0),
            *q_nope.stride()[:2],
            *q_pe.stride()[:2],
            row // 4,
            heads=heads,
            block=block,
            rank=_RANK,
            rope=_ROPE,
            page_size=plan.page_size,
            most_requests=_MOST_REQUESTS,
            with_lse=lse is not None,
            num_warps=8,
            maxnreg=168,
        )
        # few requests: their parts are many, and are shared out by columns
        columns = 128 if batch < 32 else _RANK
        combine[(batch, heads, _RANK // columns)](
            buffers.part_out,
            buffers.part_lse,
            buffers.batch_info,
            out,
            sums,
            batch,
            shares,
            heads=heads,
            rank=_RANK,
            columns=columns,
            parts=32 if batch < 32 else 4,
            with_lse=lse is not None,
            num_warps=4,
        )
        return out, lse


def row_stride(ckv: torch.Tensor, kpe: torch.Tensor) -> int:
    """Bytes from one token of the cache to the next.

    Raises:
        ValueError: not two views of one pool whose rows are a latent and a rope part.
    """
    row = ckv.stride(1)
    whole = (
        ckv.stride() == kpe.stride() == (ckv.shape[1] * row, row, 1)
        and kpe.data_ptr() == ckv.data_ptr() + _RANK
        and row % 16 == 0
        and ckv.data_ptr() % 16 == 0
    )
    if not whole:
        raise ValueError(
            f"ckv and kpe with strides {ckv.stride()} and {kpe.stride()}: the fp8 kernel reads "
            f"tokens of {_RANK} + {_ROPE} bytes that lie together, in rows of a multiple of 16"
        )
    return row
