"""Whatever SGLang's backends can be called with, ours can: constructors and hooks."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import mla_runtime
from mla_guard.drift import drift, shape_of, without_receiver
from tests.field.wheels import unpacked
from tests.runtime.signatures import parameters_of

pytestmark = pytest.mark.field

ATTENTION = "sglang/srt/layers/attention"
HOOKS = (
    "__init__",
    "init_forward_metadata",
    "init_forward_metadata_out_graph",
    "init_forward_metadata_in_graph",
    "init_cuda_graph_state",
    "get_cuda_graph_seq_len_fill_value",
    "init_mha_chunk_metadata",
    "forward_decode",
    "forward_extend",
)
CLASSES = {
    "FlashInferMLAAttnBackend": ("flashinfer_mla_backend.py", ("0.5.13", "0.5.23")),
    "FlashInferMLAMultiStepDraftBackend": ("flashinfer_mla_backend.py", ("0.5.13", "0.5.23")),
    "TRTLLMMLABackend": ("trtllm_mla_backend.py", ("0.5.13", "0.5.23")),
    "TRTLLMMLAMultiStepDraftBackend": ("trtllm_mla_backend.py", ("0.5.13", "0.5.23")),
    "CuteDslMLABackend": ("cutedsl_mla_backend.py", ("0.5.23",)),
    "CuteDslMLAMultiStepDraftBackend": ("cutedsl_mla_backend.py", ("0.5.23",)),
    "TokenspeedMLABackend": ("tokenspeed_mla_backend.py", ("0.5.13", "0.5.20")),
    "TokenspeedMLAMultiStepDraftBackend": ("tokenspeed_mla_backend.py", ("0.5.13", "0.5.20")),
}


def theirs(path: Path, name: str) -> dict[str, inspect.Signature]:
    """The hooks that a class of theirs defines, read without importing it."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    [node] = [n for n in module.body if isinstance(n, ast.ClassDef) and n.name == name]
    return {
        member.name: inspect.Signature(parameters_of(member.args))
        for member in node.body
        if isinstance(member, ast.FunctionDef) and member.name in HOOKS
    }


@pytest.mark.parametrize(
    ("name", "release"), [(n, r) for n, (_, releases) in CLASSES.items() for r in releases]
)
def test_ours_takes_every_call_that_theirs_takes(name: str, release: str) -> None:
    file, _ = CLASSES[name]
    hooks = theirs(unpacked("sglang", release) / ATTENTION / file, name)
    assert "__init__" in hooks
    ours = getattr(mla_runtime, name)
    for hook, signature in hooks.items():
        promised = without_receiver(shape_of(signature))
        own = without_receiver(shape_of(inspect.signature(getattr(ours, hook))))
        assert drift(promised, own) == (), (hook, signature)
