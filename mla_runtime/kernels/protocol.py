"""What a backend asks of a kernel library.

Conventions above this line, whatever a library does below it:

* the log-sum-exp (LSE) is natural, float32, ``[tokens, heads]``;
* a query that sees no key has output 0 and LSE ``-inf``;
* causal masks are aligned bottom-right: the last query of a request sees its last key;
* a value read from the cache is ``stored * scale``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import torch

__all__ = [
    "BlockKernels",
    "GraphBuffers",
    "PagedMla",
    "PagedPlan",
    "PlannedKernels",
    "RaggedAttention",
    "RaggedPlan",
    "host_or_copy",
]


@dataclass(frozen=True, slots=True)
class GraphBuffers:
    """Device buffers that a captured graph reads, for one batch size; contents change, they do not.

    ``qo_indptr`` and ``kv_indptr`` are ``[batch + 1]``, ``kv_len`` is ``[batch]``, ``kv_indices``
    holds at least the pages of the longest batch; all int32.
    """

    qo_indptr: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    kv_len: torch.Tensor


@dataclass(frozen=True, slots=True)
class PagedPlan:
    """A batch over the paged cache, in CSR form, ``B`` requests; all int32, ``kv_len`` in whichever
    integers the batch counts its tokens.

    ``qo_indptr[B + 1]`` delimits each request's query tokens, ``kv_indptr[B + 1]`` its pages in
    ``kv_indices``, ``kv_len[B]`` counts its cached tokens. The ``*_cpu`` tensors are host mirrors;
    with all three present, planning copies nothing from the device. The next plan may overwrite the
    device's: a kernel that reads them in its runs keeps a copy.
    """

    qo_indptr: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    kv_len: torch.Tensor
    num_heads: int
    head_dim_ckv: int
    head_dim_kpe: int
    page_size: int
    causal: bool
    sm_scale: float
    q_dtype: torch.dtype
    kv_dtype: torch.dtype
    return_lse: bool = False
    qo_indptr_cpu: torch.Tensor | None = None
    kv_indptr_cpu: torch.Tensor | None = None
    kv_len_cpu: torch.Tensor | None = None

    def on_host(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """``qo_indptr``, ``kv_indptr`` and ``kv_len``: the mirrors, else copies, which wait."""
        return (
            host_or_copy(self.qo_indptr, self.qo_indptr_cpu),
            host_or_copy(self.kv_indptr, self.kv_indptr_cpu),
            host_or_copy(self.kv_len, self.kv_len_cpu),
        )


@dataclass(frozen=True, slots=True)
class RaggedPlan:
    """A batch whose keys and values are given densely; indptr tensors are ``[B + 1]`` int32."""

    qo_indptr: torch.Tensor
    kv_indptr: torch.Tensor
    num_qo_heads: int
    num_kv_heads: int
    head_dim_qk: int
    head_dim_vo: int
    causal: bool
    sm_scale: float
    q_dtype: torch.dtype
    qo_indptr_cpu: torch.Tensor | None = None
    kv_indptr_cpu: torch.Tensor | None = None


class PagedMla(Protocol):
    """Absorbed attention over the paged cache: one plan, then one run per layer."""

    def plan(self, plan: PagedPlan) -> None:
        """Prepare runs over one batch.

        Raises:
            ValueError: the metadata contradict each other, or the kernel cannot run them.
        """
        ...

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
        """Attend with ``q_nope[T, H, ckv]`` and ``q_pe[T, H, kpe]`` over the planned pages.

        ``ckv[pages, page_size, ckv]`` and ``kpe[pages, page_size, kpe]`` are views of the pool;
        ``kv_scale`` is one number, or float32 ``[pages * page_size]``, one per cached row.
        Returns ``out[T, H, ckv]`` in the queries' dtype and, if planned, ``lse[T, H]``; ``into``,
        contiguous, is where to write both.

        Raises:
            ValueError: ``T`` is not the planned number of query tokens (a stale plan), or the
                kernel takes one scale and is given one per row.
        """
        ...


class RaggedAttention(Protocol):
    """Multi-head attention over dense keys and values of ragged lengths."""

    def plan(self, plan: RaggedPlan) -> None:
        """Prepare runs over one batch; raises ``ValueError`` as ``PagedMla.plan`` does."""
        ...

    def run(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, return_lse: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attend with ``q[T, H, qk]`` to ``k[S, Hk, qk]``, ``v[S, Hk, vo]``.

        Returns ``out[T, H, vo]`` and, if asked, ``lse[T, H]``; raises ``ValueError`` for a stale
        plan.
        """
        ...


class PlannedKernels(Protocol):
    """A library whose kernels are planned once per step."""

    @property
    def name(self) -> str: ...

    def paged_mla(
        self, device: torch.device, graph_buffers: GraphBuffers | None = None
    ) -> PagedMla:
        """A new planner; with ``graph_buffers`` its runs read those, and may be captured."""
        ...

    def ragged(self, device: torch.device) -> RaggedAttention: ...

    def merge_state(
        self,
        out_a: torch.Tensor,
        lse_a: torch.Tensor,
        out_b: torch.Tensor,
        lse_b: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention over the union of two disjoint key sets, from its two parts.

        ``out_*[T, H, D]``, ``lse_*[T, H]``; Dao et al., FlashAttention, arXiv:2205.14135, 3.1.
        """
        ...


class BlockKernels(Protocol):
    """A library of the TRT-LLM family: stateless calls over a block table."""

    @property
    def name(self) -> Literal["torch", "trtllm-gen", "cute-dsl", "tokenspeed"]: ...

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
        """Absorbed attention of ``query[B, S, H, ckv + kpe]``, causal within each request.

        ``kv_cache[pages, page_size, ckv + kpe]``; ``block_tables[B, blocks]`` int32, -1 where a
        request has no page; ``seq_lens[B]`` int32 counts cached tokens, those of the query
        included. ``has_empty_rows`` as in ``prefill``. Returns ``out[B, S, H, ckv]`` and, if asked,
        ``lse[B * S, H]``.
        """
        ...

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
        """Ragged multi-head attention, as ``RaggedAttention.run``, planned by its arguments.

        ``has_empty_rows`` says whether a request has no key, so that a kernel whose rows are then
        undefined is corrected only where it must be.
        """
        ...


def host_or_copy(device_tensor: torch.Tensor, host: torch.Tensor | None) -> torch.Tensor:
    """The host mirror where there is one, else a copy, which waits for the device."""
    return device_tensor.cpu() if host is None else host
