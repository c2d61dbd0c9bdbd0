"""``PlannedKernels`` over flashinfer-python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mla_runtime.kernels.capability import Capability, capability_of, require
from mla_runtime.kernels.checks import check_query_tokens, check_ragged_plan, check_same_length
from mla_runtime.kernels.flashinfer_library import FlashInferLibrary, accepts, load_library
from mla_runtime.kernels.flashinfer_paged import FlashInferPagedMla
from mla_runtime.kernels.fp8_decode import Fp8DecodeMla, serves
from mla_runtime.kernels.lse import canonical_lse, to_base2
from mla_runtime.kernels.protocol import GraphBuffers, PagedPlan, RaggedPlan, host_or_copy
from mla_runtime.workspace import WorkspaceKind, workspace

if TYPE_CHECKING:
    import torch

    from mla_runtime.kernels.protocol import PagedMla, RaggedAttention

__all__ = [
    "FastestPagedMla",
    "FlashInferPlannedKernels",
    "FlashInferRagged",
    "merged_heads",
    "ragged_backend",
]

_FA2_OR_NEWER: frozenset[Capability] = frozenset(
    {(8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)}
)


def ragged_backend(capability: Capability) -> str:
    """The fastest ragged kernel of an architecture: fa3 on SM90, CUTLASS on SM100, else fa2."""
    if capability == (9, 0):
        return "fa3"
    return "cutlass" if capability in ((10, 0), (10, 3)) else "fa2"


def merged_heads(heads: int, dim: int) -> int:
    """Heads that ``flashinfer.merge_state`` takes per token: one thread block holds all of them.

    A block has ``dim / max(8, dim / 32)`` threads per head (``cascade.cuh``, 0.6.18.post1, 16-bit)
    and at most 1024, so that 128 heads of 128 fail to launch. Rows are independent, so that a
    token's heads may go as several rows.
    """
    per_head = max(1, dim // max(8, dim // 32))
    return max(g for g in range(1, heads + 1) if heads % g == 0 and g * per_head <= 1024)


class FlashInferRagged:
    """``RaggedAttention`` over ``BatchPrefillWithRaggedKVCacheWrapper``."""

    def __init__(self, library: FlashInferLibrary, scratch: Any, backend: str) -> None:
        self._library = library
        self._scratch = scratch
        self._backend = backend
        self._wrapper: Any = None
        self._run_options: dict[str, Any] = {}
        self._qo_last = 0
        self._kv_last = 0

    def plan(self, plan: RaggedPlan) -> None:
        qo_indptr = host_or_copy(plan.qo_indptr, plan.qo_indptr_cpu)
        kv_indptr = host_or_copy(plan.kv_indptr, plan.kv_indptr_cpu)
        check_ragged_plan(plan, qo_indptr, kv_indptr)
        if self._wrapper is None:
            self._wrapper = self._library.BatchPrefillWithRaggedKVCacheWrapper(
                self._scratch(), kv_layout="NHD", backend=self._backend
            )
            if accepts(self._wrapper.run, "lse_base"):
                self._run_options = {"lse_base": "log2", "lse_layout": "NH"}
        self._wrapper.plan(
            qo_indptr=qo_indptr,
            kv_indptr=kv_indptr,
            num_qo_heads=plan.num_qo_heads,
            num_kv_heads=plan.num_kv_heads,
            head_dim_qk=plan.head_dim_qk,
            head_dim_vo=plan.head_dim_vo,
            causal=plan.causal,
            sm_scale=plan.sm_scale,
            q_data_type=plan.q_dtype,
            kv_data_type=plan.q_dtype,
        )
        self._qo_last, self._kv_last = int(qo_indptr[-1]), int(kv_indptr[-1])

    def run(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, return_lse: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if self._wrapper is None:
            raise RuntimeError("run before plan: the ragged kernel has no batch yet")
        check_query_tokens(q, self._qo_last, "ragged prefill")
        check_same_length("k", k, self._kv_last, "kv_indptr[-1]")
        check_same_length("v", v, self._kv_last, "kv_indptr[-1]")
        if not return_lse:
            return self._wrapper.run(q, k, v, return_lse=False), None
        out, lse = self._wrapper.run(q, k, v, return_lse=True, **self._run_options)
        return out, canonical_lse(lse, base2=True)


class FastestPagedMla:
    """FlashInfer's planner, and in its place our own where a plan is one that it serves faster."""

    def __init__(self, flashinfer: FlashInferPagedMla, capability: Capability) -> None:
        self.flashinfer = flashinfer
        self._capability = capability
        self._own: Fp8DecodeMla | None = None
        self._planned: FlashInferPagedMla | Fp8DecodeMla = flashinfer

    @property
    def graph_buffers(self) -> object:
        """The fixed buffers that captured runs of the last plan read."""
        return self._planned.graph_buffers

    def plan(self, plan: PagedPlan) -> None:
        if not serves(plan, self._capability):
            self._planned = self.flashinfer
        else:
            self._own = self._own or Fp8DecodeMla(
                plan.kv_indices.device, self.flashinfer.graph_buffers
            )
            self._planned = self._own
        self._planned.plan(plan)

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
        return self._planned.run(q_nope, q_pe, ckv, kpe, kv_scale=kv_scale, into=into)


class FlashInferPlannedKernels:
    """Paged MLA and ragged attention on one device; the library is imported here and not before."""

    name = "flashinfer"

    def __init__(
        self,
        device: torch.device,
        *,
        library: FlashInferLibrary | None = None,
        capability: Capability | None = None,
        ragged: str | None = None,
        own_fp8: bool = False,
    ) -> None:
        """The kernels of a device; ``ragged`` names a ragged kernel other than the fastest.

        With ``own_fp8``, decodes over an e4m3 cache go to our own kernel where it serves them
        (``fp8_decode``), three times as fast as the library's; not by default before more of its
        tests have run on a card (``docs/gpu.md``).

        Raises:
            KernelUnavailableError: a device older than SM80, or no usable library.
        """
        self._device = device
        self._capability = capability_of(device) if capability is None else capability
        require("FlashInfer's MLA", self._capability, _FA2_OR_NEWER, "TorchMLABackend")
        self._library = load_library() if library is None else library
        self._ragged = ragged_backend(self._capability) if ragged is None else ragged
        self._own_fp8 = own_fp8

    def _scratch(self) -> torch.Tensor:
        return workspace(self._device, WorkspaceKind.FLASHINFER)

    def paged_mla(
        self, device: torch.device, graph_buffers: GraphBuffers | None = None
    ) -> PagedMla:
        flashinfer = FlashInferPagedMla(
            self._library, self._capability, self._scratch, graph_buffers
        )
        return FastestPagedMla(flashinfer, self._capability) if self._own_fp8 else flashinfer

    def ragged(self, device: torch.device) -> RaggedAttention:
        return FlashInferRagged(self._library, self._scratch, self._ragged)

    def merge_state(
        self,
        out_a: torch.Tensor,
        lse_a: torch.Tensor,
        out_b: torch.Tensor,
        lse_b: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        tokens, heads, dim = out_a.shape
        group = merged_heads(heads, dim)
        out, lse = self._library.merge_state(
            out_a.reshape(-1, group, dim),
            to_base2(lse_a).reshape(-1, group),
            out_b.reshape(-1, group, dim),
            to_base2(lse_b).reshape(-1, group),
        )
        return out.view(tokens, heads, dim), canonical_lse(lse.view(tokens, heads), base2=True)
