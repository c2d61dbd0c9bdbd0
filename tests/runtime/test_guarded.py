"""Every backend is under contract, holds it, and runs its plain functions once that is seen."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mla_guard import HookContractError, contract_of, status, verify
from mla_runtime import (
    AttentionBackend,
    AttentionForm,
    FlashInferMLAMultiStepDraftBackend,
    ForwardMode,
    TRTLLMMLABackend,
    create_draft_backend,
)
from mla_runtime.create import BACKENDS
from tests.runtime.test_adapters import LATENT_512, blocks, planned
from tests.runtime.world import FP8, World

PASSES: list[tuple[ForwardMode, list[int], list[int]]] = [
    (ForwardMode.EXTEND, [40, 0], [7, 3]),
    (ForwardMode.TARGET_VERIFY, [5, 9], [3, 3]),
    (ForwardMode.DRAFT_EXTEND_V2, [5, 9], [3, 1]),
    (ForwardMode.DECODE, [5, 9], [1, 1]),
]


def world_for(name: str) -> World:
    world = World(kv_dtype=FP8 if name == "tokenspeed_mla" else None)
    world.runner.server_args = replace(world.settings, speculative_num_draft_tokens=3)
    return world


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_holds_its_contract(name: str) -> None:
    world = world_for(name)
    verify(BACKENDS[name](world.runner))
    verify(create_draft_backend(name, world.runner, 1, 3))


@pytest.mark.parametrize("name", BACKENDS)
def test_the_guard_is_gone_once_every_phase_was_seen(name: str) -> None:
    world = world_for(name)
    backend = BACKENDS[name](world.runner)
    for mode, prefix_lens, q_lens in PASSES:
        world.forget()
        one_pass = world.pass_of(mode, prefix_lens, q_lens)
        form = AttentionForm.MHA_CHUNKED_KV if mode is ForwardMode.EXTEND else None
        one_pass.run(backend, form, capacity=24)
    # The block-table backends plan no chunks themselves, but the hook is called all the same.
    backend.init_cuda_graph_state(4, 12)
    backend.init_forward_metadata_out_graph(one_pass.batch, in_capture=True)
    backend.init_forward_metadata_in_graph(one_pass.batch)
    assert status(backend).armed == ()
    assert status(backend).verified


@pytest.mark.parametrize("base", [AttentionBackend, FlashInferMLAMultiStepDraftBackend])
def test_a_base_declares_hooks(base: type) -> None:
    assert "init_forward_metadata_out_graph" in contract_of(base).hooks


@pytest.mark.parametrize("name", BACKENDS)
def test_a_draft_chain_is_captured_after_its_state_is_there(name: str) -> None:
    world = world_for(name)
    draft = create_draft_backend(name, world.runner, 1, 3)
    batch = world.batch(ForwardMode.DECODE, [0], [4], [1], [0])
    with pytest.raises(HookContractError, match="init_cuda_graph_state"):
        draft.init_forward_metadata_out_graph(batch, in_capture=True)


def test_chunk_metadata_is_the_hook_that_a_wrapper_may_narrow() -> None:
    hook = contract_of(AttentionBackend).hooks["init_mha_chunk_metadata"]
    assert hook.optional
    assert hook.optional_arguments == ("disable_flashinfer_ragged",)


def test_without_the_guard_the_classes_are_plain() -> None:
    code = (
        "import mla_runtime as m; from mla_runtime.create import BACKENDS;"
        "print(sorted({f for c in (m.AttentionBackend, *BACKENDS.values())"
        " for f in vars(c) if hasattr(vars(c)[f], '__mla_original__')}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"MLA_GUARD": "off", "PATH": ""},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_backends_allocate_no_workspace_before_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers: dict[Any, Any] = {}
    monkeypatch.setattr("mla_runtime.workspace._BUFFERS", buffers)
    world = World(config=LATENT_512, dtype=torch.bfloat16)
    backends = [
        TRTLLMMLABackend(world.runner, kernels=planned()[0], decode_kernels=blocks(name)[0])
        for name in ("trtllm-gen", "cute-dsl", "trtllm-gen")
    ]
    assert buffers == {}
    for backend in backends:
        # The stand-ins overwrite CuTe DSL's buffer and expect TRT-LLM's counters to be zero.
        world.forget()
        world.pass_of(ForwardMode.DECODE, [5], [1]).run(backend)
    assert sorted(kind.value for _, kind in buffers) == ["cute-dsl", "trtllm-gen"]
    assert all(len(made) == 1 for made in buffers.values())
