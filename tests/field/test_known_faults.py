"""Faults that shipped in SGLang, each found in the release that has it, both ends named."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import pytest

from lint_rules.config import Config
from lint_rules.run import check
from mla_guard.diagnostic import Diagnostic
from tests.field.wheels import unpacked

pytestmark = pytest.mark.field

ATTENTION = "sglang/srt/layers/attention"
FORWARD_MHA = "sglang/srt/models/deepseek_common/attention_forward_methods/forward_mha.py"


class Fault(NamedTuple):
    """A finding that a release must yield, by the first of ``mentions`` in its message.

    The other ``mentions`` stand in its text.
    """

    release: str
    code: str
    severity: str
    symbol: str
    path: str
    mentions: tuple[str, ...]


FAULTS = [
    Fault(
        "0.5.5",
        "MLA309",
        "warning",
        "TRTLLMMLABackend.init_forward_metadata",
        f"{ATTENTION}/trtllm_mla_backend.py",
        ("stores forward_metadata", "the case is self.disable_chunked_prefix_cache"),
    ),
    Fault(
        "0.5.12.post1",
        "MLA202",
        "error",
        "TRTLLMMLABackend.init_mha_chunk_metadata",
        f"{ATTENTION}/trtllm_mla_backend.py",
        (
            "mha_chunk_kv_cache",
            "disable_chunked_prefix_cache",
            f"{ATTENTION}/flashinfer_mla_backend.py",
        ),
    ),
    Fault(
        "0.5.12.post1",
        "MLA301",
        "error",
        "HybridLinearAttnBackend.init_mha_chunk_metadata",
        f"{ATTENTION}/hybrid_linear_attn_backend.py",
        ("init_mha_chunk_metadata", FORWARD_MHA),
    ),
    Fault(
        "0.5.12.post1",
        "MLA303",
        "error",
        "HybridLinearKVPool.move_kv_cache",
        "sglang/srt/mem_cache/memory_pool.py",
        ("MLATokenToKVPool", "not implemented by MLATokenToKVPool, NPUMLATokenToKVPool"),
    ),
    Fault(
        "0.5.12.post1",
        "MLA104",
        "warning",
        "AttentionBackend.forward",
        f"{ATTENTION}/base_attn_backend.py",
        ("**kwargs", "'sinks' not taken by", "IntelAMXAttnBackend.forward_extend"),
    ),
    Fault(
        "0.5.13",
        "MLA101",
        "error",
        "TRTLLMMLABackend.init_mha_chunk_metadata",
        f"{ATTENTION}/trtllm_mla_backend.py",
        (
            "drops 'disable_flashinfer_ragged' (position 2)",
            f"{ATTENTION}/flashinfer_mla_backend.py",
        ),
    ),
    Fault(
        "0.5.13",
        "MLA102",
        "error",
        "HybridLinearAttnBackend.init_mha_chunk_metadata",
        f"{ATTENTION}/hybrid_linear_attn_backend.py",
        ("disable_flashinfer_ragged", f"{ATTENTION}/trtllm_mla_backend.py"),
    ),
    *(
        Fault(
            "0.5.15",
            "MLA105",
            "warning",
            f"{name}.forward_decode",
            f"{ATTENTION}/{file}",
            (
                "FlashInferMLAAttnBackend.forward_decode returns 2 on some",
                "FlashInferMLAAttnBackend.forward_decode returns 2 values where "
                "isinstance(o, tuple)",
            ),
        )
        for name, file in (
            ("CutlassMLABackend", "cutlass_mla_backend.py"),
            ("TRTLLMMLABackend", "trtllm_mla_backend.py"),
        )
    ),
    Fault(
        "0.5.16",
        "MLA301",
        "error",
        "HybridAttnBackend.init_mha_chunk_metadata",
        f"{ATTENTION}/hybrid_attn_backend.py",
        ("init_mha_chunk_metadata", FORWARD_MHA, "HybridLinearAttnBackend"),
    ),
    Fault(
        "0.5.23",
        "MLA303",
        "error",
        "DotsSWAMLAAttnBackend.init_mha_chunk_metadata",
        f"{ATTENTION}/dots_hybrid_backend.py",
        ("FlashAttentionBackend",),
    ),
    Fault(
        "0.5.23",
        "MLA202",
        "error",
        "TRTLLMMLABackend.init_mha_chunk_metadata",
        f"{ATTENTION}/trtllm_mla_backend.py",
        (
            "mha_chunk_kv_cache in a branch that implies that it is absent",
            "the guard `get_schedule().disable_chunked_prefix_cache and "
            "any(forward_batch.extend_prefix_lens_cpu)` holds only where mha_chunk_kv_cache does "
            "not exist",
        ),
    ),
    Fault(
        "0.5.23",
        "MLA102",
        "warning",
        "FlashMLABackend.__init__",
        f"{ATTENTION}/flashmla_backend.py",
        ("__init__",),
    ),
]


@lru_cache(maxsize=1)
def findings(release: str) -> tuple[Diagnostic, ...]:
    sources = unpacked("sglang", release)
    report = check([sources], Config(src=(sources,), root=sources))
    assert report.failures == ()
    return report.diagnostics


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.release} {f.code} {f.symbol}")
def test_the_fault_is_found(fault: Fault) -> None:
    prefix = f"{unpacked('sglang', fault.release)}/"
    found = [
        d
        for d in findings(fault.release)
        if (d.code, d.symbol) == (fault.code, fault.symbol) and fault.mentions[0] in d.message
    ]
    assert [(d.severity, d.place.path.removeprefix(prefix)) for d in found] == [
        (fault.severity, fault.path)
    ]
    text = found[0].text()
    assert [words for words in fault.mentions if words not in text] == []
