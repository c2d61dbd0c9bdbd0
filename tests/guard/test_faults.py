"""Each fault of the design page is refused before anything changed, and its repair passes."""

from __future__ import annotations

from typing import Any

import pytest

from mla_guard import (
    HookAttributeError,
    HookCallError,
    HookContractError,
    status,
    unguard_hierarchy,
)

from .miniatures import Batch, family

PREFILL = Batch("EXTEND", (3, 5))
DECODE = Batch("DECODE")


def refused(call: Any, kind: type[HookContractError], *codes: str) -> HookContractError:
    with pytest.raises(kind) as caught:
        call()
    assert [d.code for d in caught.value.diagnostics] == list(codes)
    assert caught.type is kind
    return caught.value


def test_a_wrapper_that_passes_more_than_the_narrow_override_takes() -> None:
    f = family()
    inner = f.NarrowTRTLLM()
    wrapper = f.PassingWrapper(inner)
    error = refused(lambda: wrapper.init_mha_chunk_metadata(PREFILL, True), HookCallError, "MLA102")
    assert (wrapper.calls, inner.calls) == ([], [])
    assert error.diagnostics[0].message == (
        "init_mha_chunk_metadata(batch, ragged) does not bind to "
        "NarrowTRTLLM.init_mha_chunk_metadata(batch)"
    )
    refused(lambda: wrapper.init_mha_chunk_metadata(PREFILL), HookCallError, "MLA102")


def test_the_override_that_takes_all_passes() -> None:
    f = family()
    wrapper = f.PassingWrapper(f.TRTLLM())
    wrapper.init_mha_chunk_metadata(PREFILL, True)
    assert (wrapper.calls, wrapper.inner.calls) == (["wrapper chunk"], ["trtllm chunk"])


def test_the_wrapper_that_delegates_passes_over_both() -> None:
    f = family()
    for cls in (f.NarrowTRTLLM, f.TRTLLM):
        wrapper = f.DelegatingWrapper(cls())
        wrapper.init_mha_chunk_metadata(PREFILL, True)
        assert (wrapper.calls, wrapper.inner.calls) == (["wrapper chunk"], ["trtllm chunk"])


def test_an_attribute_that_only_some_configurations_create() -> None:
    f = family()
    backend = f.CallingParent(skip_prefill=True)
    error = refused(lambda: backend.init_mha_chunk_metadata(PREFILL), HookAttributeError, "MLA202")
    assert backend.calls == []
    assert error.diagnostics[0].reasons == ("on this CallingParent skip_prefill is True",)
    assert [r.message for r in error.diagnostics[0].related] == [
        "FlashInfer.init_mha_chunk_metadata requires mha_chunk_kv_cache.planned",
        "FlashInfer creates mha_chunk_kv_cache only if not skip_prefill",
    ]


def test_the_same_backend_with_its_attribute_passes() -> None:
    backend = family().CallingParent()
    backend.init_mha_chunk_metadata(PREFILL)
    assert backend.calls == ["before the parent", "chunk"]
    assert backend.mha_chunk_kv_cache.planned == 1


def test_a_second_instance_with_other_flags_is_verified_by_itself() -> None:
    f = family()
    f.CallingParent().init_mha_chunk_metadata(PREFILL)
    second = f.CallingParent(skip_prefill=True)
    refused(lambda: second.init_mha_chunk_metadata(PREFILL), HookAttributeError, "MLA202")
    assert second.calls == []


def test_a_flag_that_made_the_parent_skip_part_of_its_initialization() -> None:
    f = family()
    backend = f.SkippingParent()
    refused(lambda: backend.forward_decode(1, DECODE), HookAttributeError, "MLA202")
    assert backend.calls == []
    repaired = f.WholeParent()
    assert repaired.forward_decode(1, DECODE) == 1
    assert repaired.calls == ["decode"]


def test_a_wrapper_without_the_hook_that_callers_probe() -> None:
    f = family()
    wrapper = f.StaleWrapper(f.FlashInfer())
    error = refused(lambda: wrapper.init_forward_metadata(PREFILL), HookAttributeError, "MLA301")
    assert (wrapper.calls, wrapper.inner.calls) == ([], [])
    assert error.diagnostics[0].symbol == "StaleWrapper.init_mha_chunk_metadata"
    repaired = f.DelegatingWrapper(f.FlashInfer())
    repaired.init_forward_metadata(PREFILL)
    assert repaired.qo_indptr == [0, 3, 8]


def test_decode_first_and_then_a_stale_prefill_plan() -> None:
    backend = family().FlashInfer()
    backend.init_forward_metadata(DECODE)
    backend.forward_decode(1, DECODE)
    error = refused(lambda: backend.forward_extend(1, PREFILL), HookContractError, "MLA403")
    assert error.diagnostics[0].reasons == ("init_forward_metadata ran in decode only",)
    refused(lambda: backend.forward_extend(1, PREFILL), HookContractError, "MLA403")
    assert backend.calls == ["plan", "decode"]
    backend.init_forward_metadata(PREFILL)
    assert backend.forward_extend(1, PREFILL) == 1
    assert [a.hook for a in status(backend).armed] == ["init_mha_chunk_metadata"]


def test_a_plan_that_does_not_match_its_batch() -> None:
    f = family()

    class Forgetful(f.FlashInfer):  # type: ignore[misc, name-defined]
        def init_forward_metadata(self, batch: Batch) -> None:
            self.calls.append("plan")

    backend = Forgetful()
    backend.init_forward_metadata(DECODE)
    refused(lambda: backend.init_forward_metadata(PREFILL), HookContractError, "MLA404")
    refused(lambda: backend.init_forward_metadata(PREFILL), HookContractError, "MLA404")
    refused(lambda: backend.forward_extend(1, PREFILL), HookContractError, "MLA403")
    assert backend.calls == ["plan", "plan", "plan"]


def test_capture_first_and_then_an_eager_prefill(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = family().FlashInfer()
    with monkeypatch.context() as capturing:
        capturing.setattr("mla_guard.phase.stream_is_capturing", lambda: True)
        capturing.setattr("mla_guard.first_call.stream_is_capturing", lambda: True)
        backend.init_forward_metadata(PREFILL)
        backend.forward_extend(1, PREFILL)
    assert sorted((a.hook, a.what, a.postponed) for a in status(backend).armed) == [
        ("forward_decode", "requires", ""),
        ("forward_extend", "after", "the call came under capture"),
        ("init_forward_metadata", "ensures", "the call came under capture"),
        ("init_mha_chunk_metadata", "requires", ""),
    ]
    refused(lambda: backend.forward_extend(1, PREFILL), HookContractError, "MLA403")
    assert backend.calls == ["plan", "extend"]


def test_no_hook_of_a_verified_class_is_wrapped_and_nothing_is_left_after_unguard() -> None:
    f = family()
    originals = {
        name: value for name, value in vars(f.FlashInfer).items() if not name.startswith("__")
    }
    backend = f.FlashInfer()
    assert vars(f.FlashInfer)["forward_extend"] is not originals["forward_extend"]
    backend.forward_decode(1, DECODE)
    backend.init_forward_metadata(DECODE)
    assert status(backend).installed == (
        "forward_extend",
        "init_forward_metadata",
        "init_mha_chunk_metadata",
    )
    backend.init_forward_metadata(PREFILL)
    backend.forward_extend(1, PREFILL)
    backend.init_mha_chunk_metadata(PREFILL)
    for name, function in originals.items():
        assert vars(f.FlashInfer)[name] is function
    assert status(backend).installed == ()
    unguard_hierarchy(f.Base)
    assert "__init_subclass__" not in vars(f.Base)
    assert "__setstate__" not in vars(f.Base)
    assert not hasattr(f.FlashInfer.__init__, "__wrapped__")
