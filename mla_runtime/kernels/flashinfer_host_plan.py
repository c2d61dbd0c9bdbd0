"""FlashInfer's scheduling of a batch alone, where a plan need not do more than that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from mla_runtime.kernels.flashinfer_library import FlashInferLibrary

__all__ = ["PinnedScratch", "schedule", "schedules_alone"]

_PRIVATE = (
    "_cached_module",
    "_float_workspace_buffer",
    "_int_workspace_buffer",
    "_pin_memory_int_workspace_buffer",
    "_kv_indices_buf",
    "_plan_info",
    "_use_cuda_graph",
)


def schedules_alone(library: FlashInferLibrary, wrapper: Any) -> bool:
    """Whether ``schedule`` can stand for the next ``plan`` of a wrapper that was planned once.

    It reads private attributes of ``BatchMLAPagedAttentionWrapper`` (``flashinfer/mla/_core.py``,
    the same from 0.6.17 to 0.6.18.post1). From 0.7.0 on the wrapper hands its plan to a backend
    of its own and checks it there: never.
    """
    return (
        library.MLAPlanMetadata is None
        and all(hasattr(wrapper, name) for name in _PRIVATE)
        and callable(getattr(wrapper._cached_module, "plan", None))
    )


def schedule(
    wrapper: Any,
    metadata: dict[str, torch.Tensor],
    num_heads: int,
    head_dim_ckv: int,
    causal: bool,
) -> None:
    """Plan a wrapper again for other lengths; every other argument is that of its last ``plan``.

    ``metadata`` as ``plan`` takes it, all but ``kv_indices`` int32 on the host. ``plan`` also
    copies it to the device, where no kernel reads it, and in graph mode ``kv_indices`` onto itself:
    a run reads the indices and the schedule alone.
    """
    kv_indices = metadata["kv_indices"]
    if not wrapper._use_cuda_graph:
        wrapper._kv_indices_buf = kv_indices
    elif wrapper._kv_indices_buf.data_ptr() != kv_indices.data_ptr():
        wrapper._kv_indices_buf[: kv_indices.shape[0]].copy_(kv_indices)
    wrapper._plan_info = wrapper._cached_module.plan(
        wrapper._float_workspace_buffer,
        wrapper._int_workspace_buffer,
        wrapper._pin_memory_int_workspace_buffer,
        metadata["qo_indptr"],
        metadata["kv_indptr"],
        metadata["kv_len_arr"],
        num_heads,
        head_dim_ckv,
        causal,
    )


class PinnedScratch:
    """When the host may write a wrapper's pinned schedule again.

    A plan copies it to the device asynchronously; given host tensors it waits for nothing, and the
    next plan would write over what the device has yet to fetch.
    """

    def __init__(self, device: torch.device) -> None:
        self._fetched: Any = None
        if device.type == "cuda":
            self._fetched = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._recorded = False

    def __enter__(self) -> None:
        if self._recorded:
            self._fetched.synchronize()

    def __exit__(self, *_: object) -> None:
        if self._fetched is not None:
            self._fetched.record()
            self._recorded = True
