"""Real engines under guard: their own classes, everything else that they import stubbed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from mla_guard import (
    HookAttributeError,
    HookCallError,
    HookContractError,
    guard_hierarchy,
    status,
    unguard_hierarchy,
    verify,
)
from mla_guard.arming import descendants
from mla_guard.judge import class_breaches
from tests.field.wheels import unpacked

from .engine import loaded, stub
from .sources import vllm

pytestmark = pytest.mark.field

ATTENTION = "sglang.srt.layers.attention"
BASE = f"{ATTENTION}.base_attn_backend"
SGLANG = (
    BASE,
    f"{ATTENTION}.flashinfer_mla_backend",
    f"{ATTENTION}.trtllm_mla_backend",
    f"{ATTENTION}.hybrid_linear_attn_backend",
)
SERVER = SimpleNamespace(
    disaggregation_mode="null",
    disable_chunked_prefix_cache=False,
    flashinfer_mla_disable_ragged=False,
    speculative_num_draft_tokens=0,
    speculative_eagle_topk=0,
    enable_unified_memory=False,
    enable_mamba_extra_buffer=lambda: False,
)
GIVEN = {
    "sglang.srt.server_args.get_global_server_args": lambda: SERVER,
    "sglang.srt.runtime_context.get_server_args": lambda: SERVER,
    "sglang.srt.layers.dp_attention.get_attention_tp_size": lambda: 1,
    "sglang.srt.utils.is_flashinfer_available": lambda: True,
    "sglang.srt.utils.common.is_flashinfer_available": lambda: True,
}
MODEL = SimpleNamespace(
    num_attention_heads=8,
    num_key_value_heads=1,
    get_num_kv_heads=lambda size: 1,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    scaling=1.0,
    context_len=1000,
)
PREFILL = SimpleNamespace(forward_mode="EXTEND", extend_prefix_lens_cpu=[0])


class Engine(NamedTuple):
    root: Path
    runner: Any
    trtllm: Any
    hybrid: Any
    mamba: Any


@contextmanager
def sglang(version: str) -> Iterator[Engine]:
    root = unpacked("sglang", version)
    with loaded(root, SGLANG, GIVEN) as modules:
        base = modules[BASE].AttentionBackend
        guard_hierarchy(base, profile="sglang")
        runner = stub()
        runner.server_args, runner.model_config = SERVER, MODEL
        hybrid = modules[SGLANG[3]]
        yield Engine(
            root,
            runner,
            modules[SGLANG[2]].TRTLLMMLABackend,
            hybrid.HybridLinearAttnBackend,
            hybrid.Mamba2AttnBackend,
        )
        unguard_hierarchy(base)


def codes(error: HookContractError) -> list[str]:
    return [d.code for d in error.diagnostics]


def test_trtllm_that_skips_prefill_is_refused_before_it_plans() -> None:
    with sglang("0.5.12.post1") as engine:
        backend = engine.trtllm(engine.runner, skip_prefill=True)
        before = dict(vars(backend))
        for _ in range(2):
            with pytest.raises(HookAttributeError) as caught:
                backend.init_mha_chunk_metadata(PREFILL)
            assert codes(caught.value) == ["MLA202"]
            assert vars(backend) == before
        where = "sglang/srt/layers/attention"
        assert str(caught.value).replace(f"{engine.root}/", "").splitlines() == [
            f"{where}/trtllm_mla_backend.py:675:9: MLA202 TRTLLMMLABackend.init_mha_chunk_metadata "
            "reads mha_chunk_kv_cache unguarded: AttributeError on this instance "
            "[unguarded-attribute]",
            f"  {where}/flashinfer_mla_backend.py:513:9: "
            "FlashInferMLAAttnBackend.init_mha_chunk_metadata requires mha_chunk_kv_cache",
            f"  {where}/flashinfer_mla_backend.py:277:22: FlashInferMLAAttnBackend creates "
            "mha_chunk_kv_cache only if not skip_prefill and self.enable_chunk_kv",
            "  - on this TRTLLMMLABackend skip_prefill is True, enable_chunk_kv is False",
            "  hint: Create mha_chunk_kv_cache on every path of __init__ (as None where it is not "
            "used), or guard the read with the condition that creates it.",
        ]


def test_the_hybrid_wrapper_over_trtllm_is_refused_where_it_passes_too_much() -> None:
    with sglang("0.5.13") as engine:
        inner = engine.trtllm(engine.runner)
        wrapper = engine.hybrid(inner, engine.mamba(engine.runner), [1])
        before = [dict(vars(b)) for b in (wrapper, inner)]
        for call in (wrapper.init_mha_chunk_metadata, wrapper.init_forward_metadata):
            with pytest.raises(HookCallError) as caught:
                call(PREFILL)
            assert codes(caught.value) == ["MLA102"]
        assert [vars(b) for b in (wrapper, inner)] == before
        assert str(caught.value).replace(f"{engine.root}/", "").splitlines() == [
            "sglang/srt/layers/attention/hybrid_linear_attn_backend.py:820:13: MLA102 "
            "init_mha_chunk_metadata(forward_batch, disable_flashinfer_ragged) does not bind to "
            "TRTLLMMLABackend.init_mha_chunk_metadata(forward_batch) [hook-call-mismatch]",
            "  sglang/srt/layers/attention/trtllm_mla_backend.py:565:9: "
            "TRTLLMMLABackend.init_mha_chunk_metadata is defined here",
            "  - TRTLLMMLABackend.init_mha_chunk_metadata takes at most 1 positional argument, 2 "
            "passed, 'disable_flashinfer_ragged' left over",
            "  hint: TypeError as soon as self.full_attn_backend is a TRTLLMMLABackend. Pass only "
            "what every backend accepts, or widen the implementation.",
        ]
        with pytest.raises(HookContractError) as verified:
            verify(wrapper)
        assert verified.value.diagnostics == caught.value.diagnostics


def test_the_repaired_hybrid_wrapper_passes() -> None:
    with sglang("0.5.16") as engine:
        inner = engine.trtllm(engine.runner)
        wrapper = engine.hybrid(inner, engine.mamba(engine.runner), [1])
        verify(wrapper)
        wrapper.init_mha_chunk_metadata(PREFILL)
        assert (status(wrapper).verified, status(inner).verified) == (True, True)
        assert (status(wrapper).installed, status(inner).installed) == ((), ())


def test_the_wrapper_without_the_probed_hook_is_refused() -> None:
    with sglang("0.5.12.post1") as engine:
        inner = engine.trtllm(engine.runner)
        wrapper = engine.hybrid(inner, engine.mamba(engine.runner), [1])
        with pytest.raises(HookAttributeError) as caught:
            wrapper.init_forward_metadata(PREFILL)
        assert codes(caught.value) == ["MLA301"]


def modules_below(root: Path, package: str, base: str) -> list[str]:
    """The base's module, and those of the package that define classes and load."""
    names = [base]
    for path in sorted(root.joinpath(*package.split(".")).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        if path.stem != "__init__" and name != base and "class " in path.read_text("utf-8"):
            names.append(name)
    return names


def loadable(root: Path, names: list[str]) -> list[str]:
    """Those that load: a stub cannot stand for every value that a module computes with."""
    good = []
    for name in names:
        try:
            with loaded(root, dict.fromkeys([names[0], name])):
                good.append(name)
        except (TypeError, AttributeError):
            continue
    return good


class Hierarchy(NamedTuple):
    root: Path
    package: str
    base: str
    name: str
    profile: str
    classes: int
    broken: tuple[str, ...] = ()


def hierarchies() -> Iterator[Hierarchy]:
    root = unpacked("sglang", "0.5.16")
    yield Hierarchy(root, ATTENTION, BASE, "AttentionBackend", "sglang", 34)
    backends = "tokenspeed.runtime.layers.attention.backends"
    yield Hierarchy(
        unpacked("tokenspeed", "0.1.1"),
        backends,
        f"{backends}.base",
        "AttentionBackend",
        "tokenspeed",
        14,
        ("MLA101 DeepseekV41AttentionBackend.init_cuda_graph_state",),
    )
    for name, classes in (
        ("AttentionBackend", 27),
        ("AttentionImpl", 23),
        ("AttentionMetadataBuilder", 24),
    ):
        package, base = "vllm.v1.attention.backends", "vllm.v1.attention.backend"
        yield Hierarchy(vllm(), package, base, name, "vllm", classes)


def test_whole_hierarchies_are_guarded_and_restored_exactly() -> None:
    for hierarchy in hierarchies():
        names = modules_below(hierarchy.root, hierarchy.package, hierarchy.base)
        with loaded(hierarchy.root, loadable(hierarchy.root, names)) as modules:
            base = getattr(modules[hierarchy.base], hierarchy.name)
            family = [base, *descendants(base)]
            before = [dict(vars(cls)) for cls in family]
            guard_hierarchy(base, profile=hierarchy.profile)
            assert [vars(cls) for cls in family] != before
            found = {f"{d.code} {d.symbol}" for cls in family for d in class_breaches(cls)}
            assert (hierarchy.name, len(family), sorted(found)) == (
                hierarchy.name,
                hierarchy.classes,
                list(hierarchy.broken),
            )
            unguard_hierarchy(base)
            assert [dict(vars(cls)) for cls in family] == before


def test_static_hooks_of_a_real_backend_are_verified_and_restored() -> None:
    root = vllm()
    base = "vllm.v1.attention.backend"
    names = loadable(root, [base, "vllm.v1.attention.backends.triton_attn"])
    with loaded(root, names) as modules:
        backend: ModuleType = modules[names[1]]
        cls = backend.TritonAttentionBackend
        before = dict(vars(cls))
        guard_hierarchy(modules[base].AttentionBackend, profile="vllm")
        assert vars(cls)["get_name"] is not before["get_name"]
        assert cls.get_name() == "TRITON_ATTN"
        assert dict(vars(cls)) == before
        unguard_hierarchy(modules[base].AttentionBackend)
