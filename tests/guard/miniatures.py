"""The four faults of the design page in plain Python: each as it shipped, and repaired.

Parameters stand for tensors, ``calls`` for what would have been planned on a device.
"""

from __future__ import annotations

from typing import Any

from mla_guard import delegate, exposes, guard, hook

__all__ = ["Batch", "Family", "family"]


class Batch:
    """A forward batch: its mode, and how many tokens it extends each request by."""

    def __init__(self, mode: str, extend_lens: tuple[int, ...] = ()) -> None:
        self.forward_mode = mode
        self.extend_lens = extend_lens


class ChunkRunner:
    """What plans chunked prefill; exists only where it is of use."""

    def __init__(self) -> None:
        self.planned = 0

    def update(self, batch: Batch) -> None:
        self.planned += 1


def _planned(self: Any, batch: Batch) -> bool:
    """``qo_indptr[-1]`` is the number of extend tokens."""
    return bool(self.qo_indptr[-1] == sum(batch.extend_lens))


class Family:
    """One guarded hierarchy, made anew for each test."""

    Base: Any
    FlashInfer: Any
    NarrowTRTLLM: Any
    TRTLLM: Any
    CallingParent: Any
    SkippingParent: Any
    WholeParent: Any
    StaleWrapper: Any
    PassingWrapper: Any
    DelegatingWrapper: Any


def family() -> Family:
    made = Family()

    @guard
    class Base:
        def __init__(self) -> None:
            self.calls: list[str] = []
            self.qo_indptr = [0]

        @hook(phase="prefill", ensures=_planned)
        def init_forward_metadata(self, batch: Batch) -> None:
            raise NotImplementedError

        @hook(phase="prefill", after="init_forward_metadata")
        def forward_extend(self, q: Any, batch: Batch) -> Any:
            raise NotImplementedError

        def forward_decode(self, q: Any, batch: Batch) -> Any:
            raise NotImplementedError

    made.Base = Base

    class FlashInfer(Base):
        def __init__(self, *, skip_prefill: bool = False, skip_workspace: bool = False) -> None:
            super().__init__()
            self.skip_prefill = skip_prefill
            if not skip_prefill:
                self.mha_chunk_kv_cache = ChunkRunner()
            if not skip_workspace:
                self.decode_wrapper = object()

        def init_forward_metadata(self, batch: Batch) -> None:
            self.calls.append("plan")
            self.qo_indptr = [0]
            for length in batch.extend_lens:
                self.qo_indptr.append(self.qo_indptr[-1] + length)

        @hook(optional=True, optional_arguments="ragged", requires="mha_chunk_kv_cache.planned")
        def init_mha_chunk_metadata(self, batch: Batch, ragged: bool = False) -> None:
            self.calls.append("chunk")
            self.mha_chunk_kv_cache.update(batch)

        def forward_extend(self, q: Any, batch: Batch) -> Any:
            self.calls.append("extend")
            return q

        @hook(requires="decode_wrapper")
        def forward_decode(self, q: Any, batch: Batch) -> Any:
            self.calls.append("decode")
            return q

    made.FlashInfer = FlashInfer

    class NarrowTRTLLM(FlashInfer):
        def init_mha_chunk_metadata(self, batch: Batch) -> None:  # type: ignore[override]
            self.calls.append("trtllm chunk")

    class TRTLLM(FlashInfer):
        def init_mha_chunk_metadata(self, batch: Batch, ragged: bool = False) -> None:
            self.calls.append("trtllm chunk")

    made.NarrowTRTLLM, made.TRTLLM = NarrowTRTLLM, TRTLLM

    class CallingParent(FlashInfer):
        def init_mha_chunk_metadata(self, batch: Batch, ragged: bool = False) -> None:
            self.calls.append("before the parent")
            super().init_mha_chunk_metadata(batch, ragged=True)

    made.CallingParent = CallingParent

    class SkippingParent(FlashInfer):
        def __init__(self) -> None:
            super().__init__(skip_workspace=True)

    class WholeParent(FlashInfer):
        def __init__(self) -> None:
            super().__init__(skip_workspace=True)
            self.decode_wrapper = object()

    made.SkippingParent, made.WholeParent = SkippingParent, WholeParent

    class StaleWrapper(Base):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def init_forward_metadata(self, batch: Batch) -> None:
            self.calls.append("wrapper plan")
            self.inner.init_forward_metadata(batch)
            self.qo_indptr = self.inner.qo_indptr

        def forward_extend(self, q: Any, batch: Batch) -> Any:
            self.calls.append("wrapper extend")
            return self.inner.forward_extend(q, batch)

        def forward_decode(self, q: Any, batch: Batch) -> Any:
            self.calls.append("wrapper decode")
            return self.inner.forward_decode(q, batch)

    class PassingWrapper(StaleWrapper):
        def init_mha_chunk_metadata(self, batch: Batch, ragged: bool = False) -> None:
            self.calls.append("wrapper chunk")
            init = getattr(self.inner, "init_mha_chunk_metadata", None)
            if init is not None:
                init(batch, ragged)

    class DelegatingWrapper(StaleWrapper):
        def init_mha_chunk_metadata(self, batch: Batch, ragged: bool = False) -> None:
            self.calls.append("wrapper chunk")
            if exposes(self.inner, "init_mha_chunk_metadata"):
                delegate(self.inner, "init_mha_chunk_metadata", batch, ragged)

    made.StaleWrapper = StaleWrapper
    made.PassingWrapper, made.DelegatingWrapper = PassingWrapper, DelegatingWrapper
    return made
